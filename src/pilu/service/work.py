"""One pass of a worker: `python -m pilu.service.work [--everywhere | --callbacks]`.

Its options are in the environment. `pilu work` does the same with options of its own.
"""

import os
import sys

from pilu.service.callbacks import Sender
from pilu.service.configuration import Configuration
from pilu.service.database import open_database
from pilu.service.server import log_to_stderr
from pilu.service.worker import Worked, Worker

_NICE = 10  # calls go first


def work(configuration: Configuration, *, everywhere: bool = False) -> Worked:
    """Carry out what is due."""
    configuration.own.mkdir(parents=True, exist_ok=True, mode=0o700)
    database = open_database(configuration.where)
    try:
        worked = Worker(configuration, database).run(everywhere=everywhere)
    finally:
        database.close()
    return worked


def send(configuration: Configuration) -> int:
    """Send the callbacks that are due; returns how many were delivered."""
    database = open_database(configuration.where)
    try:
        return Sender(configuration, database).run()
    finally:
        database.close()


def main() -> None:
    """Work as the process that started this one says."""
    log_to_stderr()
    configuration = Configuration.from_environment()
    if "--callbacks" in sys.argv[1:]:
        send(configuration)
        return
    os.nice(_NICE)
    work(configuration, everywhere="--everywhere" in sys.argv[1:])


if __name__ == "__main__":
    main()
