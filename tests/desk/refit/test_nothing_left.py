"""After rows are forgotten or corrected, no byte of a refit store tells of what they were."""

import base64
import json
import math
import re
import struct
from datetime import date

import numpy as np
import pytest

from desk.refit.conftest import COLUMNS
from desk.refit.tables import make_rows, write
from pilu.data.names import hash_of
from pilu.desk.desk import Desk
from pilu.exceptions import DoneWithTrouble
from pilu.refit.fingerprints import fingerprint

WHO, ROW = "the leaver", "row 7"
SECRET = {
    "age": 61.803398874989485,
    "income": 2.718281828459045,
    "city": "Atlantis",
    "said": "xylophone quokka zephyr mumpsimus 7",
}
OPTIONS = {**COLUMNS, "words": ["said"], "categories": ["city"]}


def people(secret=SECRET):
    """Exact doubles; the one who leaves has a row with values that nobody else has."""
    rng, rows = np.random.default_rng(3), make_rows(60)
    for row in rows:
        row["age"], row["income"] = float(rng.normal(45, 15)), float(rng.normal(3, 1))
    rows[7] |= {"person": WHO, **secret}
    return rows


def patterns_of(values):
    """How numbers and texts may be written."""
    for value in values:
        if isinstance(value, str):
            for encoding in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
                yield value, value.encode(encoding)
            yield value, base64.b64encode(value.encode())[:-4]
            continue
        for form in ("<d", ">d", "<f", ">f"):
            yield repr(value), struct.pack(form, value)
        digits = f"{value:.15e}"
        yield repr(value), repr(value)[:9].encode()
        yield repr(value), (digits[0] + digits[2:9]).encode()  # wherever the point is
        yield repr(value), digits[:10].encode()


def contents(store):
    """Every file, and every text in base64 in it, by name."""
    for path in store.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            yield path.name, content
            for k, text in enumerate(re.findall(rb"[A-Za-z0-9+/]{8,}={0,2}", content)):
                if len(text) % 4 == 0:
                    yield f"{path.name}, base64 number {k}", base64.b64decode(text)


def found(store, patterns):
    listed = list(patterns)
    return sorted(
        {(name, what) for name, content in contents(store) for what, p in listed if p in content}
    )


def learned_numbers(model):
    """Doubles that the fitted pipeline learned from all rows."""
    columns, head = model[0], model[-1]
    numbers = {name: step for name, step, _ in columns.transformers_}["numbers"]
    listed = [
        *head.coef_.ravel(),
        *head.intercept_,
        *numbers["scale"].mean_,
        *numbers["scale"].var_,
    ]
    return [float(v) for v in listed if abs(v) > 1e-9 and v != round(v, 3)]


def held_before(desk, *, corrected=False):
    """What the store has of the row and of the model that knows it; all of it is there now."""
    held = desk.read()
    place = held.names.by_hash("id")[hash_of(ROW, held.key)][0]
    keyed = {"digest": held.digests[place].tobytes(), "id": hash_of(ROW, held.key)}
    if corrected:
        keyed.pop("id")
    once = {name: value.encode() for name, value in held.state["arrays"].items()}
    once.pop("suppressed")
    if corrected:
        once = {name: once[name] for name in ("digests", "released")}
    once["nonce"] = held.state["nonce"].encode()
    texts = [*once.items(), *keyed.items()]
    texts += [(what, value.hex().encode()) for what, value in keyed.items()]
    learned = [(repr(v), struct.pack("<d", v)) for v in learned_numbers(held.released)]
    assert len(learned) > 10
    there = {what for _, what in found(desk.folder, [*texts, *learned])}
    assert there == {what for what, _ in [*texts, *learned]}
    return texts + learned


def erased(rows, table):
    write([row for row in rows if row["person"] != WHO], table)


HISTORIES = {
    "unlearn": lambda desk, rows, table: desk.unlearn(WHO),
    "unlearn of an erased row": lambda desk, rows, table: (erased(rows, table), desk.unlearn(WHO)),
    "request and run": lambda desk, rows, table: (desk.request(WHO), desk.run()),
    "among others": lambda desk, rows, table: desk.unlearn([WHO, "person 1", "person 2"]),
    "sync": lambda desk, rows, table: (erased(rows, table), desk.sync()),
    "sync that forgets": lambda desk, rows, table: (
        erased(rows, table), desk.sync(forget_missing=True),
    ),
    "after a release": lambda desk, rows, table: (
        desk.release(table.with_name("model.json")), desk.unlearn(WHO),
    ),
    "after others": lambda desk, rows, table: (
        desk.unlearn("person 1"), desk.unlearn(WHO), desk.unlearn("person 2"),
    ),
    "delivered late": lambda desk, rows, table: delivered_late(desk),
}  # fmt: skip


def delivered_late(desk):
    with pytest.raises(DoneWithTrouble):
        desk.unlearn(WHO, deliver=lambda _: 1 / 0)
    desk.deliver_again(desk.undelivered()[0], list)


@pytest.mark.parametrize("history", HISTORIES)
def test_no_byte_tells_of_the_row(tmp_path, history):
    rows = people()
    table = write(rows, tmp_path / "people.parquet")
    with Desk.fit(tmp_path / "store", table, **OPTIONS) as desk:
        key = desk.store.key
        patterns = held_before(desk)
        assert ("released.npy", "xylophone") in found(
            desk.folder, patterns_of(["xylophone", "Atlantis"])
        )
        HISTORIES[history](desk, rows, table)
    words = [WHO, ROW, "Atlantis", "xylophone", "quokka", "zephyr", "mumpsimus"]
    patterns += patterns_of([*words, SECRET["age"], SECRET["income"]])
    assert found(tmp_path / "store", patterns) == []
    # The keyed name of the person is kept, so that a second request is told from an unknown one.
    name = hash_of(WHO, key)
    where = {file for file, _ in found(tmp_path / "store", [("", name), ("", name.hex().encode())])}
    assert where == (set() if history == "sync" else {"ledger.sqlite", "suppressed.npy"})


def test_no_byte_tells_of_what_was_corrected(tmp_path):
    rows = people()
    table = write(rows, tmp_path / "people.parquet")
    with Desk.fit(tmp_path / "store", table, **OPTIONS) as desk:
        patterns = held_before(desk, corrected=True)
        new = {**rows[7], "age": 33.0, "income": 1.5, "since": date(2021, 5, 5), "city": "Chur"}
        new |= {"said": "good bad late fine"}
        desk.correct(write([new], tmp_path / "corrected.parquet"))
    words = ["Atlantis", "xylophone", "quokka", SECRET["age"], SECRET["income"]]
    assert found(tmp_path / "store", [*patterns, *patterns_of(words)]) == []


def test_no_byte_tells_of_the_evidence_once_it_is_delivered(tmp_path):
    """A receipt's evidence and exposure are with the person alone."""
    table, handed, there = write(people(), tmp_path / "people.parquet"), [], []
    with Desk.fit(tmp_path / "store", table, **OPTIONS) as desk:
        desk.release()

        def deliver(receipts):
            handed.extend(receipts)
            names = ("nonce", "rows_sha256", "transformers_sha256", "fields_sha256")
            evidence = receipts[0].evidence
            patterns = [(name, evidence[name].encode()) for name in names]
            patterns += [("exposure", r.exposure["nonce"].encode()) for r in receipts]
            there.extend(patterns)
            assert len(found(desk.folder, patterns)) == 5

        desk.unlearn([WHO, *(f"person {k}" for k in range(10, 20))], deliver=deliver)
        assert len(handed) == 11
        assert handed[0].exposure["n_releases"] == 1
    assert found(tmp_path / "store", there) == []


def test_the_search_finds_what_is_there(tmp_path):
    raw = struct.pack("<d", SECRET["age"])
    for k, content in enumerate(
        [
            b"x" + raw,
            b'{"raw":"' + base64.b64encode(b"12345678" + raw) + b'"}',
            b"61.8033988",
            "Atlantis".encode("utf-32-le"),
            b'{"raw":"' + base64.b64encode("an Atlantis".encode("utf-32-le")) + b'"}',
            np.float32(SECRET["age"]).tobytes(),
        ]
    ):
        folder = tmp_path / str(k)
        folder.mkdir()
        (folder / "file").write_bytes(content)
        assert found(folder, patterns_of([SECRET["age"], "Atlantis"])), content


# What is kept, whatever the row was


def plain_values(record, path=""):
    """All that a record says, but for random numbers, hashes and times."""
    if isinstance(record, dict):
        for name, value in record.items():
            yield from plain_values(value, f"{path}/{name}")
    elif isinstance(record, list):
        for k, value in enumerate(record):
            yield from plain_values(value, f"{path}/{k}")
    elif not (isinstance(record, str) and re.fullmatch(r"(\d+:)?[0-9a-f]{32,}", record)):
        yield path, record


def kept_of(folder, secret, target):
    """All plain values in the log and the state, once the row is forgotten as the second."""
    folder.mkdir()
    rows = people(secret)
    if target is not None:
        rows[7]["y"] = target
    table = write(rows, folder / "people.parquet")
    with Desk.fit(folder / "store", table, **OPTIONS) as desk:
        desk.unlearn("person 1")  # its certificate is about rows with the one who leaves
        desk.unlearn(WHO)
        records = [dict(entry.record) for entry in desk.log().entries]
        records.append(dict(desk.store.read_state()))
        people_kept = [desk.store.ledger.people([k]) for k in range(3)]
    kept = dict(plain_values([*records, *people_kept]))
    unlike = ("/time", "/sources/0")
    return {name: value for name, value in kept.items() if not name.endswith(unlike)}


def test_scores_of_two_digits_are_all_that_is_kept_of_the_row(tmp_path):
    """Other values of it leave the same log and state, but for scores and a coarse noise."""
    rng = np.random.default_rng(0)
    ordinary = {"age": 40.0, "income": 3.0, "city": "Chur", "said": "good late fine never 7"}
    truth = kept_of(tmp_path / "truth", ordinary, "yes")
    same_noise = 0
    for k in range(6):
        other = {
            "age": float(rng.normal(45, 15)),
            "income": float(rng.normal(3, 1)),
            "city": str(rng.choice(["Basel", "Atlantis"])),
            "said": f"lost again {k} and again",
        }
        kept = kept_of(tmp_path / str(k), other, "yes" if k % 2 else "no")
        assert kept.keys() == truth.keys()
        differ = {name for name in kept if kept[name] != truth[name]}
        scores = {name for name in differ if "/score/" in name}
        rest = differ - scores
        same_noise += not rest
        assert all(re.search(r"certificate/(noise|mu)$", name) for name in rest), rest
        assert all(round(kept[name], 2) == kept[name] for name in scores)
    assert same_noise >= 4
    noises = [value for name, value in truth.items() if name.endswith("/noise")]
    assert len(noises) == 2
    for noise in noises:  # a power of the eighth root of two
        assert 8 * math.log2(noise) == pytest.approx(round(8 * math.log2(noise)), abs=1e-9)


def test_transformers_are_those_of_a_store_that_never_had_the_row(tmp_path):
    """In every bit: nothing of theirs is carried on."""
    rows = people()
    left = [row for row in rows if row["person"] != WHO]
    with (
        Desk.fit(tmp_path / "a", write(rows, tmp_path / "a.parquet"), **OPTIONS) as desk,
        Desk.fit(tmp_path / "b", write(left, tmp_path / "b.parquet"), **OPTIONS) as never,
    ):
        assert fingerprint(desk.read().released[0]) != fingerprint(never.read().released[0])
        desk.unlearn(WHO)
        assert fingerprint(desk.read().released[0]) == fingerprint(never.read().released[0])


def test_no_hash_can_be_tried_on_a_candidate(tmp_path):
    """The same rows and the same key give other hashes in the log: all have something random."""
    rows = people()
    table = write(rows, tmp_path / "people.parquet")
    Desk.fit(tmp_path / "first", table, **OPTIONS).close()
    logs = []
    for name in ("a", "b"):  # successors have the key of the first
        with Desk.fit(tmp_path / name, table, **OPTIONS, successor_of=tmp_path / "first") as desk:
            outcome = desk.unlearn(WHO)
            assert len(outcome.certificate.evidence["nonce"]) == 32
            logs.append([entry.body.decode() for entry in desk.log().entries])
            logs[-1] += [json.dumps(desk.store.ledger.people([1]))]
    hashes = [set(re.findall("[0-9a-f]{32,}", " ".join(log))) for log in logs]
    assert hashes[0] & hashes[1] == {hash_of(WHO, desk.store.key).hex()}
