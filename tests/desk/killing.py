"""Kill a deletion at every place it writes, and look at what is left.

    python tests/desk/killing.py FOLDER PLACES

FOLDER holds a table, a store that was fitted on it, and private.pem. The deletion runs in a fork,
for each place on a fresh copy of the store; SIGKILL comes at the n-th thing it does to files: an
audited call of Python's, or an instruction of SQLite's. It signs its receipts, and writes the
signature to a file as soon as it has it. Prints one line of JSON for each place: what was done
last, whether the store is as before or as after, and whether there is a signature.
"""

import base64
import json
import os
import shutil
import signal
import sys
from pathlib import Path

from pilu.desk import handing_over
from pilu.desk.checking import check_receipt, check_store
from pilu.desk.desk import Desk
from pilu.desk.receipt import Receipt
from pilu.desk.signing import check_signature, sign_statement
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


class Everything(Bomb):
    """Never goes off, and notes what was done."""

    def __init__(self):
        super().__init__(-1)
        self.done = []

    def tick(self, what):
        self.done.append(what)


def write(path, text):
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def signing_at_once(folder):
    """Whoever gets a signature has it, whatever happens next."""

    def sign(receipt, private):
        envelope = sign_statement(receipt, private)
        write(folder / "envelope.json", json.dumps(envelope))
        return envelope

    handing_over.sign_statement = sign


def forget(folder, bomb):
    """In a fork: whether it was killed, and what was done."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with Desk.open(folder / "copy") as desk:
            signing_at_once(folder / "out")
            bomb.arm(desk)
            desk.unlearn(PERSON, epsilon=1.0, sign=folder / "private.pem", deliver=into(folder))
        os.write(writer, json.dumps(getattr(bomb, "done", [])).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        done = pipe.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), json.loads(done or "[]")


def into(folder):
    def deliver(receipts):
        (receipt,) = receipts
        write(folder / "out" / "receipt.json", receipt.to_json())

    return deliver


def signatures(folder, log):
    """For every signature on the disk, by itself or in a receipt: whether the log has its entry."""
    found = {}
    for name in ("envelope.json", "receipt.json"):
        text = (folder / "out" / name).read_text() if (folder / "out" / name).exists() else ""
        try:
            record = json.loads(text)
        except ValueError:
            continue  # nothing, or a part of it
        envelope = record if name == "envelope.json" else record["signature"]
        said = json.loads(base64.b64decode(envelope["payload"]))["predicate"]
        found[name] = log.has(said["place"], said["entry"])
    return found


def look(folder):
    """Open the store again, as anybody would, and say what it is."""
    store = folder / "copy"
    with Desk.open(store) as desk:
        log, recovered, undelivered = desk.log(), desk.store.recovered, desk.undelivered()
        generation = desk.store.read_state()["generation"]
        folders = sorted(p.name for p in store.glob("arrays-*"))
        signed = signatures(folder, log)
        try:
            desk.quote([PERSON], n_unlearn_steps=1)
            knows = True
        except Exception as error:
            knows = type(error).__name__
        for place in undelivered:
            desk.deliver_again(place, into(folder), folder / "private.pem")
        checked = None
        if len(log.entries) == 2:
            receipt = Receipt.from_json((folder / "out" / "receipt.json").read_text())
            check_signature(receipt, folder / "public.pem")
            checked = check_receipt(receipt, desk)["in_the_log_of_the_store"]
        (after,) = desk.unlearn("person number 7", epsilon=1.0).receipts
        assert desk.undelivered() == []
        check_store(desk)
    rest = sorted(p.name for p in store.iterdir() if p.is_file())
    return {
        "entries": len(log.entries),
        "generation": generation,
        "folders": folders,
        "knows": knows,
        "signed": signed,
        "recovered": recovered,
        "undelivered": undelivered,
        "receipt": checked,
        "then": after.person.record["rows"],
        "files": rest,
    }


def chosen(done, n_places):
    """Some of all places, and all at which something else is done than in SQLite."""
    total = len(done)
    some = {1 + k * (total - 1) // max(n_places - 1, 1) for k in range(n_places)}
    others = [k for k, what in enumerate(done, 1) if what != "sqlite"]
    if len(others) > n_places:
        others = others[:: -(-len(others) // n_places)]
    return sorted(some | set(others))


def main():
    folder, n_places = Path(sys.argv[1]), int(sys.argv[2])

    def fresh():
        for name in ("copy", "out"):
            shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(folder / "store", folder / "copy")
        (folder / "out").mkdir()

    fresh()
    code, done = forget(folder, Everything())
    assert code == 0, code
    places = chosen(done, n_places)
    print(json.dumps({"total": len(done), "places": len(places)}))
    for place in places:
        fresh()
        code, _ = forget(folder, Bomb(place))
        report = {"place": place, "last": done[place - 1], "code": code, **look(folder)}
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
