"""Kill a deletion at every place it writes, and look at what is left.

    python tests/desk/killing.py FOLDER PLACES

FOLDER holds a table and a store that was fitted on it. The deletion runs in a fork, for each place
on a fresh copy of the store; SIGKILL comes at the n-th thing it does to files: an audited call of
Python's, or an instruction of SQLite's. Prints one line of JSON for each place: what was done last,
and whether the store is as before or as after.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from pilu.desk.desk import Desk
from pilu.store import arrays

PERSON = "person number 3"
WATCHED = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "shutil.rmtree")


class Bomb:
    """Counts what is done to files, and goes off at the n-th."""

    def __init__(self, place):
        self.place, self.count, self.last = place, 0, ""

    def tick(self, what):
        self.count += 1
        self.last = what
        if self.count == self.place:
            os.kill(os.getpid(), signal.SIGKILL)

    def arm(self, desk, watched=WATCHED):
        def audited(event, args):
            if event in watched:
                self.tick(event)

        def instruction():
            self.tick("sqlite")
            return 0

        put, sync = arrays._put, os.fsync

        def writing(file, content):
            self.tick("half a write")
            file.write(bytes(content)[: len(content) // 2])  # then nothing, or all of it
            file.flush()
            self.tick("the other half")
            file.seek(-(len(content) // 2), os.SEEK_END)
            return put(file, content)

        def syncing(handle):
            self.tick("fsync")
            return sync(handle)

        arrays._put, os.fsync = writing, syncing
        sys.addaudithook(audited)
        desk.store.ledger._database.set_progress_handler(instruction, 1)


def forget(store, place):
    """In a fork: how many things were done, unless it was killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        bomb = Bomb(place)
        with Desk.open(store) as desk:
            bomb.arm(desk)
            desk.unlearn(PERSON, epsilon=1.0)
        os.write(writer, str(bomb.count).encode())
        os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        counted = pipe.read()
    return os.waitstatus_to_exitcode(status), int(counted or 0)


def look(store):
    """Open the store again, as anybody would, and say what it is."""
    with Desk.open(store) as desk:
        size = len(desk.log().entries)
        generation = desk.store.read_state()["generation"]
        folders = sorted(p.name for p in store.glob("arrays-*"))
        try:
            desk.quote([PERSON], n_unlearn_steps=1)
            knows = True
        except Exception as error:
            knows = type(error).__name__
        (receipt,) = desk.unlearn("person number 7", epsilon=1.0).receipts
    rest = sorted(p.name for p in store.iterdir() if p.is_file())
    return {
        "entries": size,
        "generation": generation,
        "folders": folders,
        "knows": knows,
        "then": receipt.person.record["rows"],
        "files": rest,
    }


def main():
    folder, n_places = Path(sys.argv[1]), int(sys.argv[2])
    copy = folder / "copy"

    def fresh():
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder / "store", copy)

    fresh()
    code, total = forget(copy, place=-1)
    assert code == 0, code
    print(json.dumps({"total": total}))
    places = sorted({1 + k * (total - 1) // max(n_places - 1, 1) for k in range(n_places)})
    for place in places:
        fresh()
        code, _ = forget(copy, place)
        print(json.dumps({"place": place, "code": code, **look(copy)}), flush=True)


if __name__ == "__main__":
    main()
