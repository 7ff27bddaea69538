"""Stop a worker for longer than its lease, let others do its work, and wake it.

    python tests/service/stalling.py FOLDER PLACES

The worker runs in a fork, for each place on a fresh copy of what `service.waiting` prepares. It is
stopped by SIGSTOP before or after the n-th call of those below, where it holds no lock. Its lease
expires; another worker does the pass, or is killed when it has made a change and not handed over
the receipts. Then the first one is woken. Prints one line of JSON for each place, as `killing.py`.
"""

import json
import os
import shutil
import signal
import sys
import traceback
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from pilu.desk.desk import Desk
from pilu.desk.refit_desk import RefitDesk
from pilu.service import worker as worker_module
from pilu.service.callbacks import Sender
from pilu.service.worker import _StoreWork
from service.killing import go_on, without_pictures
from service.looking import look
from service.passes import a_pass
from service.waiting import prepare, run_sql

_CALLS = (
    (Desk, "run"), (RefitDesk, "add"), (RefitDesk, "correct"), (Desk, "note_once"),
    (_StoreWork, "_keep"), (_StoreWork, "_answer"), (_StoreWork, "_fail"),
    (_StoreWork, "_log_actions"), (worker_module, "draw_store"),
    (Sender, "run"), (Sender, "_note"),
)  # fmt: skip


class Calls:
    """Counts calls, and does something at the n-th."""

    def __init__(self, place, act):
        self.place, self.act, self.done = place, act, []

    def tick(self, what):
        self.done.append(what)
        if len(self.done) == self.place:
            self.act()

    def watch(self, *calls):
        for module, name in calls:
            called = getattr(module, name)

            def calling(*given, called=called, name=name, **options):
                self.tick(f"before {name}")
                result = called(*given, **options)
                self.tick(f"after {name}")
                return result

            setattr(module, name, calling)


def stop():
    os.kill(os.getpid(), signal.SIGSTOP)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def nothing():
    pass


def in_a_fork(configuration, calls, *watched, out=None):
    """Start a pass; its process."""
    child = os.fork()
    if child == 0:
        try:
            calls.watch(*watched)
            a_pass(configuration)
            if out is not None:
                out.write_text(json.dumps(calls.done))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return child


def ended(child):
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def stalled_at(prepared, place, change):
    """A report: stopped at a place, while another dies after its n-th change, or does all."""
    configuration = prepared.fresh()
    child = in_a_fork(configuration, Calls(place, stop), *_CALLS)
    _, status = os.waitpid(child, os.WUNTRACED)
    was_stopped = os.WIFSTOPPED(status)
    run_sql(configuration, "UPDATE leases SET until = 0")
    other = in_a_fork(configuration, Calls(2 * change - 1, die), (_StoreWork, "_keep"))
    code_of_other = ended(other)
    code = None
    if was_stopped:
        os.kill(child, signal.SIGCONT)
        code = ended(child)
    report = {"stopped": was_stopped, "code": code, "other": code_of_other}
    return report | go_on(configuration) | look(prepared, configuration)


def main():
    folder, n_places = Path(sys.argv[1]), int(sys.argv[2])
    without_pictures(n_places)
    pa.set_cpu_count(1)  # threads do not come along into a fork
    prepared = prepare(folder)
    with closing(prepared):
        out = folder / "done.json"
        assert ended(in_a_fork(prepared.fresh(), Calls(-1, nothing), *_CALLS, out=out)) == 0
        done = json.loads(out.read_text())
        print(json.dumps({"total": len(done), "done": done}), flush=True)
        # Another that does everything, or is killed before it hands over its n-th change.
        cases = [
            (place, change)
            for place, what in enumerate(done, 1)
            for change in range(4)
            if change == 0 or not what.endswith("_note")
        ]
        n_cases = min(n_places, len(cases))
        picked = [cases[(2 * k + 1) * len(cases) // (2 * n_cases)] for k in range(n_cases)]
        for place, change in picked:
            report = {"place": [place, change], "last": done[place - 1]}
            print(json.dumps(report | stalled_at(prepared, place, change)), flush=True)
    shutil.rmtree(folder / "stores", ignore_errors=True)


if __name__ == "__main__":
    main()
