"""What came of it all, from the outside: databases by SQL, files by their bytes."""

import base64
import contextlib
import json
import sqlite3
import struct
from collections import Counter

import pyarrow.parquet
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from pilu.data.names import hash_of
from pilu.desk.checking import check_receipt, check_store
from pilu.desk.desk import Desk
from pilu.desk.receipt import Receipt
from service.waiting import (
    ALL_ROWS,
    EXPECTED,
    GONE,
    KINDS,
    PEOPLE,
    ROWS_OF,
    TWICE,
    UNKNOWN,
    N,
    run_sql,
)


def look(prepared, configuration):
    """By name: what is found; or True where all is as it must be, and what is wrong otherwise."""
    store = configuration.stores / "people"
    key = (store / "key").read_bytes()
    hashed = {name: hash_of(name, key).hex() for name in [*PEOPLE, UNKNOWN]}

    def ask(statement, *values):
        return run_sql(configuration, statement, *values)

    found = {
        "requests": _requests(prepared, ask),
        "receipts": _receipts(prepared, ask, hashed),
        "log": _log(store, hashed),
        "actions": _actions(prepared, store, ask),
        "callbacks": _callbacks(prepared, configuration, ask),
        "leases": ask("SELECT name FROM leases") == [] or "a lease is left",
        "rows": _rows(configuration),
        "bytes": _bytes(configuration.stores),
    }
    with Desk.open(store) as desk:
        found["desk"] = _desk(desk, hashed)
        for body, *_ in ask("SELECT body FROM receipts"):
            checks = check_receipt(Receipt.from_json(body), desk)
            if not checks["in_the_log_of_the_store"]:
                found["receipts"] = checks
    return found


def _wrong(found, expected):
    """True, or what differs."""
    if isinstance(found, dict) and isinstance(expected, dict):
        differ = [key for key in found | expected if found.get(key) != expected.get(key)]
        found, expected = ({key: one.get(key) for key in differ} for one in (found, expected))
    return found == expected or f"{found}, not {expected}"


def _requests(prepared, ask):
    found = {
        prepared.labels[number]: [status, outcome, receipt is not None]
        for number, status, outcome, receipt in ask(
            "SELECT id, status, outcome, receipt FROM requests"
        )
    }
    return _wrong(found, EXPECTED)


def _receipts(prepared, ask, hashed):
    """One for each person who was erased, and all requests about the person have it."""
    each = Counter(person for (person,) in ask("SELECT person FROM receipts"))
    right = _wrong(dict(each), {hashed[name]: 1 for name in GONE} | {"": 3})
    if right is not True:
        return right
    for number, subject, label in (
        (row[1], row[2], prepared.labels[row[0]])
        for row in ask("SELECT id, receipt, subject FROM requests WHERE receipt IS NOT NULL")
    ):
        wanted = "" if subject is None else subject
        held = ask("SELECT person, body, entry FROM receipts WHERE id = ?", number)
        if len(held) != 1 or held[0][0] != wanted:
            return f"{label} has the receipt of {held}"
        record = json.loads(held[0][1])
        own = record["person"]
        if record["place"] != held[0][2] or (own and own["record"]["subject"] != wanted):
            return f"the receipt of {label} says something else"
    two = ask("SELECT DISTINCT receipt FROM requests WHERE subject = ?", hashed[TWICE])
    return len(two) == 1 or "two receipts for one person"


def _entries(store):
    with contextlib.closing(sqlite3.connect(store / "ledger.sqlite")) as ledger:
        entries = ledger.execute("SELECT place, body FROM entries ORDER BY place").fetchall()
        people = ledger.execute("SELECT place, body FROM people").fetchall()
        outbox = ledger.execute("SELECT place FROM outbox").fetchall()
    return [json.loads(body) for _, body in entries], people, outbox


def _log(store, hashed):
    entries, people, outbox = _entries(store)
    kinds = Counter(entry["kind"] for entry in entries)
    kinds.pop("audit")
    forgotten = Counter(
        json.loads(body)["subject"] for place, body in people if entries[place]["kind"] == "unlearn"
    )
    found = (dict(kinds), dict(forgotten), outbox)
    return _wrong(found, (KINDS, {hashed[name]: 1 for name in GONE}, []))


def _actions(prepared, store, ask):
    entries, _, _ = _entries(store)
    logged, batches = Counter(), Counter()
    for place, entry in enumerate(entries):
        if entry["kind"] == "audit":
            batches[entry["batch"]] += 1
            for one in entry["actions"]:
                logged[one["by"], one["action"]] += one["n"]
            noted = ask("SELECT entry FROM audit WHERE batch = ?", entry["batch"])
            if {where for (where,) in noted} != {place}:
                return f"the actions of entry {place} are noted as {noted}"
    if ask("SELECT number FROM audit WHERE entry IS NULL"):
        return "an action is not in the log"
    return _wrong(dict(logged), prepared.actions) if max(batches.values()) == 1 else "twice"


def _callbacks(prepared, configuration, ask):
    ends, public = {}, configuration.own / "callbacks.pub"
    if not public.exists():
        return "nobody can check callbacks: there is no public key"
    key = load_pem_public_key(public.read_bytes())
    for line in (prepared.folder / "received").read_text().splitlines():
        headers, body = json.loads(line)
        sent = {name.lower(): value for name, value in headers.items()}
        kind, _, signature = sent["webhook-signature"].partition(",")
        assert kind == "v1a"
        content = f"{sent['webhook-id']}.{sent['webhook-timestamp']}.{body}"
        key.verify(base64.b64decode(signature), content.encode())
        said = json.loads(body)
        ends.setdefault(sent["webhook-id"], []).append([said["id"], said["status"]])
    status = dict(ask("SELECT id, status FROM requests"))
    rows = ask("SELECT id, request, url, next, delivered FROM callbacks")
    for number, request, url, following, delivered in rows:
        if "127.0.0.1:1/" in url:
            if following is None or delivered is not None or number in ends:
                return "what nobody took is not due"
        elif following is not None or delivered is None or number not in ends:
            return f"a callback of {prepared.labels[request]} was not sent"
        elif any(one != [request, status[request]] for one in ends[number]):
            return f"a callback of {prepared.labels[request]} said {ends[number]}"
    return len(rows) == 8 or f"{len(rows)} callbacks"


def _desk(desk, hashed):
    check_store(desk)
    there = {name.hex(): len(rows) for name, rows in desk.rows_of_people().items()}
    wanted = dict.fromkeys(PEOPLE[:N], 2) | ROWS_OF
    right = _wrong(there, {hashed[name]: n for name, n in wanted.items() if name not in GONE})
    if right is True and desk.undelivered():
        return "receipts were not handed over"
    gone = {name.hex() for name in desk.forgotten().names}
    return _wrong(gone, {hashed[name] for name in GONE}) if right is True else right


def _rows(configuration):
    """The files of rows, read by themselves."""
    for path in (configuration.own / "rows").rglob("*"):
        if path.is_file():
            people = pyarrow.parquet.read_table(path).column("person").to_pylist()
            if set(people) & set(GONE):
                return f"{path.name} has rows of {sorted(set(people) & set(GONE))}"
    return True


def _bytes(stores):
    """Nothing of who is gone in any file, and nobody's name but in files of rows."""
    gone = [UNKNOWN.encode()]
    for row in ALL_ROWS:
        if row["person"] in GONE:
            texts = (row["person"], row["said"].split()[-1], repr(row["income"]))
            gone += [text.encode() for text in texts]
            gone.append(struct.pack("<d", row["income"]))
    names = [name.encode() for name in PEOPLE]
    for path in stores.rglob("*"):
        if path.is_file():
            content, place = path.read_bytes(), path.relative_to(stores)
            for value in gone if "rows" in place.parts else gone + names:
                if value in content:
                    return f"{place} has {value!r}"
    return True
