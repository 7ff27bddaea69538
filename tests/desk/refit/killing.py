"""Kill a change of a refit store at the places where it touches files, and look at what is left.

    PYTHONPATH=tests python tests/desk/refit/killing.py FOLDER PLACES

FOLDER holds a store, its table and a second table. Every kind of change runs in a fork, for each
place on a fresh copy; SIGKILL comes at the n-th thing it does to files: an audited call of
Python's, half a write, an fsync, or an instruction of SQLite's. Prints one line of JSON for each
place.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from pilu.desk.checking import check_store
from pilu.desk.desk import Desk
from pilu.store import arrays

WATCHED = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree")


def deliver_to(folder):
    def deliver(receipts):
        for number, receipt in enumerate(receipts):
            (folder / f"receipt {number}").write_text(receipt.to_json())

    return deliver


CHANGES = {
    "unlearn": lambda desk, folder: desk.unlearn(
        ["person 1", "person 2"], deliver=deliver_to(folder / "out")
    ),
    "add": lambda desk, folder: desk.add(folder / "more.csv"),
    "sync": lambda desk, folder: desk.sync(folder / "fewer.csv", forget_missing=True),
    "request": lambda desk, folder: desk.request(["person 1", "person 2"]),
    "release": lambda desk, folder: desk.release(folder / "out" / "model.json"),
}


class Bomb:
    """Counts what is done to files, and goes off at the n-th."""

    def __init__(self, place):
        self.place, self.count = place, 0

    def tick(self, *_):
        self.count += 1
        if self.count == self.place:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def arm(self, desk):
        put, sync = arrays._put, os.fsync

        def writing(file, content):
            self.tick()
            file.write(bytes(content)[: len(content) // 2])
            file.flush()
            self.tick()
            file.seek(-(len(content) // 2), os.SEEK_END)
            return put(file, content)

        def syncing(handle):
            self.tick()
            return sync(handle)

        arrays._put, os.fsync = writing, syncing
        sys.addaudithook(lambda event, _: self.tick() if event in WATCHED else None)
        desk.store.ledger._database.set_progress_handler(self.tick, 1)


def change(kind, folder, place):
    """In a fork: the exit code, and how many things were done unless it was killed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        bomb = Bomb(place)
        with Desk.open(folder / "copy") as desk:
            bomb.arm(desk)
            CHANGES[kind](desk, folder)
        os.write(writer, str(bomb.count).encode())
        os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        return os.waitstatus_to_exitcode(status), int(pipe.read() or 0)


def fresh(folder):
    for name in ("copy", "out"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "out").mkdir()
    shutil.copytree(folder / "store", folder / "copy")


def look(folder):
    """Open the store as anybody would, and say what it is; then use it."""
    store = folder / "copy"
    with Desk.open(store) as desk:
        checks = check_store(desk)
        held, undelivered = desk.read(), desk.undelivered()
        report = {
            "verified": all(checks[name] for name in ("files_whole", "state_follows_from_the_log")),
            "kinds": [entry.kind for entry in desk.log().entries],
            "n_rows": len(held.digests),
            "n_gone": len(held.suppressed),
            "n_waiting": len(desk.pending()),
            "n_sources": len(desk.tables()),
            "releases": held.state["releases"],
            "undelivered": undelivered,
            "recovered": desk.store.recovered,
        }
        again = []
        for place in undelivered:
            desk.deliver_again(place, again.extend)
        report["delivered_again"] = [len(receipt.verify()) > 0 for receipt in again]
        desk.unlearn("person 9")
        check_store(desk)
    report["files"] = sorted(path.name for path in store.iterdir())
    report["out"] = sorted(path.name for path in (folder / "out").iterdir())
    return report


def main():
    folder, n_places = Path(sys.argv[1]), int(sys.argv[2])
    for kind in CHANGES:
        fresh(folder)
        before = look(folder)
        fresh(folder)
        code, total = change(kind, folder, place=-1)
        assert code == 0, (kind, code)
        after = look(folder)
        n = n_places // {"unlearn": 1, "sync": 2}.get(kind, 4)
        print(json.dumps({"kind": kind, "total": total, "before": before, "after": after}))
        for place in sorted({1 + k * (total - 1) // (n - 1) for k in range(n)}):
            fresh(folder)
            code, _ = change(kind, folder, place)
            print(json.dumps({"kind": kind, "place": place, "code": code, **look(folder)}))


if __name__ == "__main__":
    main()
