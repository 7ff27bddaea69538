"""Receipts and whole stores: by themselves, against the log, against the data."""

import dataclasses
import hashlib
import json
import shutil
import sqlite3

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from desk.conftest import COLUMNS
from pilu.accounting.curves import Spent
from pilu.certify.certificate import Certificate
from pilu.data.table import Columns
from pilu.desk.checking import check_receipt, check_store, people_in
from pilu.desk.desk import Desk
from pilu.desk.langevin_checking import check_against_data
from pilu.desk.langevin_desk import LangevinDesk
from pilu.desk.receipt import Receipt
from pilu.desk.release import check_release
from pilu.exceptions import CertificateMismatch, LedgerMismatch, RowsChanged, StoreDamaged
from pilu.store.log import check_proof, proof_of_growth, proof_of_place
from pilu.store.merkle import Head

PEOPLE = ("person number 3", "person number 7", "person number 9")


@pytest.fixture
def receipts(desk):
    """Two requests, a redraw, and one request more."""
    found = []
    for person in PEOPLE[:2]:
        desk.unlearn(person, n_unlearn_steps=1, deliver=found.extend)
    desk.redraw(deliver=found.extend)
    desk.unlearn(PEOPLE[2], n_unlearn_steps=1, deliver=found.extend)
    return found


def test_a_receipt_is_recomputed_and_found_in_the_log(desk, receipts, parquet):
    for receipt in receipts:
        again = Receipt.from_json(receipt.to_json())
        assert again.certificate == receipt.certificate
        checks = check_receipt(again, desk, parquet)
        assert checks["epsilon_recomputed"]
        assert checks["in_the_log_of_its_head"]
        assert checks["in_the_log_of_the_store"]
        assert checks["inputs_checked_against_data"] == (receipt.certificate.method != "redraw")
    assert [receipt.place for receipt in receipts] == [1, 2, 3, 4]


def test_the_hash_of_an_entry_is_that_of_rfc_6962(desk, receipts):
    """Leaf and first node by hand: sha256(00 || entry), sha256(01 || left || right)."""
    receipt = receipts[0]
    body = json.dumps(receipt.entry, sort_keys=True, separators=(",", ":")).encode()
    leaf = hashlib.sha256(b"\x00" + body).digest()
    (sibling,) = receipt.proof
    root = hashlib.sha256(b"\x01" + sibling + leaf).hexdigest()
    assert str(receipt.head) == f"2:{root}"


def test_a_receipt_from_another_store(receipts, parquet, tmp_path):
    with (
        LangevinDesk.create(tmp_path / "other", parquet, COLUMNS, n_steps=50, noise=0.01) as other,
        pytest.raises(CertificateMismatch, match=r"from another store than .*other"),
    ):
        check_receipt(receipts[0], other)


def test_a_receipt_of_a_deletion_that_did_not_happen(desk, receipts, tmp_path):
    """A copy of the store goes another way: what it hands out is not in the log of this one."""
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    found = []
    with Desk.open(tmp_path / "copy") as copy:
        copy.unlearn("person number 11", deliver=found.extend)
    desk.unlearn("person number 12")
    with pytest.raises(LedgerMismatch):
        check_receipt(found[0], desk)


def test_evidence_and_entries_cannot_be_exchanged(receipts):
    first, second, *_ = receipts
    with pytest.raises(CertificateMismatch):
        first.certificate.with_evidence(second.evidence)
    swapped = dataclasses.replace(first.certificate, evidence=second.evidence)
    for other in (second.certificate, swapped):
        with pytest.raises(CertificateMismatch):
            dataclasses.replace(first, certificate=other).verify()
    with pytest.raises(LedgerMismatch):
        dataclasses.replace(first, entry={**first.entry, "time": "2000-01-01"}).verify()
    with pytest.raises(LedgerMismatch):
        dataclasses.replace(first, place=0).verify()
    with pytest.raises(LedgerMismatch):
        dataclasses.replace(first, head=second.head).verify()


def test_a_noise_that_is_too_small_for_the_rows_is_noticed(desk, receipts, arrow_table, tmp_path):
    """A table whose forgotten row was ten times as large: the certificate does not cover it."""
    larger = tmp_path / "larger.parquet"
    where = arrow_table.column_names.index("f0")
    values = arrow_table["f0"].to_numpy().copy()
    values[9] *= 10
    pyarrow.parquet.write_table(arrow_table.set_column(where, "f0", pa.array(values)), larger)
    with pytest.raises(CertificateMismatch, match="is not enough for the rows in"):
        check_receipt(receipts[0], desk, larger)
    values[9], values[40] = values[9] / 10, 1.0
    pyarrow.parquet.write_table(arrow_table.set_column(where, "f0", pa.array(values)), larger)
    with pytest.raises(StoreDamaged, match="are not those of the fit"):
        check_receipt(receipts[0], desk, larger)
    pyarrow.parquet.write_table(arrow_table.slice(0, 50), larger)
    with pytest.raises(ValueError, match="must have all 60 rows of the fit"):
        check_receipt(receipts[0], desk, larger)


@pytest.mark.parametrize("settings", [{"fit_intercept": False}, {"alpha": 10.0}, {"classify": 1}])
def test_against_the_data_of_other_models(settings, arrow_table, rows, tmp_path):
    path, found = tmp_path / "people.parquet", []
    classify = bool(settings.pop("classify", 0))
    if classify:
        labels = pa.array(np.where(rows[1] > 0, "up", "down"))
        where = arrow_table.column_names.index("y")
        arrow_table = arrow_table.set_column(where, "y", labels)
    pyarrow.parquet.write_table(arrow_table, path)
    columns = dataclasses.replace(COLUMNS, classify=classify)
    with LangevinDesk.create(
        tmp_path / "s", path, columns, n_steps=50, noise=0.01, **settings
    ) as desk:
        for person in PEOPLE:
            desk.unlearn(person, n_unlearn_steps=1, deliver=found.extend)
        assert found[0].certificate.noise > 0
        assert all(
            check_receipt(receipt, desk, path)["inputs_checked_against_data"] for receipt in found
        )
        assert check_store(desk, table=path)["rows_and_statistics_are_those_of_the_table"]


@pytest.mark.parametrize("n_unlearn_steps", [5, 20, 80, 200])
def test_against_the_data_where_rounding_is_all_that_is_left(desk, parquet, n_unlearn_steps):
    """After many steps the sums' own rounding is most of the loss; a store rounds its bound up."""
    found = []
    for names in (PEOPLE[0], PEOPLE[1:]):
        desk.unlearn(names, n_unlearn_steps=n_unlearn_steps, deliver=found.extend)
    assert len(found) == 3
    for receipt in found:
        assert check_receipt(receipt, desk, parquet)["inputs_checked_against_data"]


def test_more_columns_than_rows(tmp_path):
    rng, path, found = np.random.default_rng(0), tmp_path / "wide.npz", []
    np.savez(path, X=rng.normal(size=(12, 20)), y=rng.normal(size=12), who=np.arange(12))
    with LangevinDesk.create(tmp_path / "wide", path, Columns(("y",), "who"), n_steps=50) as desk:
        desk.unlearn(3, n_unlearn_steps=1, deliver=found.extend)
        assert check_receipt(found[0], desk, path)["inputs_checked_against_data"]
        assert check_store(desk, table=path)


def test_a_store_agrees_with_itself_and_with_the_data(desk, receipts, parquet):
    noted = receipts[1].head
    checks = check_store(desk, since=noted, table=parquet)
    assert all(checks.values())
    assert not check_store(desk)["rows_and_statistics_are_those_of_the_table"]


def test_another_value_in_the_table_is_noticed(desk, receipts, arrow_table, parquet):
    where = arrow_table.column_names.index("y")
    values = arrow_table["y"].to_numpy().copy()
    values[50] += 1e-9
    pyarrow.parquet.write_table(arrow_table.set_column(where, "y", pa.array(values)), parquet)
    with pytest.raises(RowsChanged):
        check_store(desk, table=parquet)


def edited(folder, change, *, certificates=True):
    """Somebody with a pen edits state, entries and people, and makes every hash in the file anew.

    Those of the certificates as well, if asked to, with what each repeats of those before it.
    """
    database = sqlite3.connect(folder / "ledger.sqlite")
    state = json.loads(database.execute("SELECT body FROM state").fetchone()[0])
    entries = [json.loads(r[0]) for r in database.execute("SELECT body FROM entries")]
    people = {}
    for place, body in database.execute("SELECT place, body FROM people ORDER BY place, number"):
        people.setdefault(place, []).append(json.loads(body))
    change(state, entries, people)
    for place, listed in people.items():
        leaves = [leaf_of(person) for person in listed]
        entries[place]["people"] = f"{len(leaves)}:{tree(leaves).hex()}"
    if certificates:
        certify_anew(entries)
    last = [k for k, entry in enumerate(entries) if "state_sha256" in entry][-1]
    entries[last]["state_sha256"] = hashlib.sha256(canonical(state)).hexdigest()
    level = [leaf_of(entry) for entry in entries]
    database.execute("UPDATE state SET body = ?", (canonical(state),))
    database.execute("DELETE FROM entries")
    database.executemany("INSERT INTO entries VALUES (?, ?)", enumerate(map(canonical, entries)))
    database.execute("DELETE FROM people")
    database.executemany(
        "INSERT INTO people VALUES (?, ?, ?)",
        [(p, k, canonical(one)) for p, listed in people.items() for k, one in enumerate(listed)],
    )
    database.execute("UPDATE head SET body = ?", (f"{len(level)}:{tree(level).hex()}",))
    database.commit()
    database.close()


def certify_anew(entries):
    """Schedules and hashes of earlier certificates, from the fit or the last redraw on."""
    schedule, issued = list(entries[0]["learning"]), []
    for entry in entries:
        own = entry.get("certificate")
        if own is None:
            continue
        if own["method"] == "redraw":
            schedule, issued = list(entries[0]["learning"]), []
        else:
            schedule = [*schedule, [own["n_unlearn_steps"], own["noise"]]]
        whole = {"schedule": schedule, "conditional_on": issued, **own, "evidence": None}
        entry["certificate_sha256"] = hashlib.sha256(canonical(whole)).hexdigest()
        if own["method"] != "redraw":
            issued = [*issued, entry["certificate_sha256"]]


def canonical(record):
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()


def leaf_of(record):
    return hashlib.sha256(b"\x00" + canonical(record)).digest()


def tree(level):
    """RFC 6962 again, in the words of the RFC."""
    if len(level) == 1:
        return level[0]
    k = 1
    while 2 * k < len(level):
        k *= 2
    return hashlib.sha256(b"\x01" + tree(level[:k]) + tree(level[k:])).digest()


def test_the_pen_changes_nothing_by_itself(desk, receipts, parquet, tmp_path):
    """Else all that follows would say nothing."""
    head = desk.log().head
    desk.close()
    edited(tmp_path / "store", lambda s, e, p: None)
    with Desk.open(tmp_path / "store") as again:
        assert again.log().head == head
        assert check_store(again, table=parquet)


def another_schedule(state, entries, people):
    certificate = entries[2]["certificate"]
    certificate["schedule"] = [[50, 0.01], [1, 9.0], [1, certificate["noise"]]]


def without_people(state, entries, people):
    del people[1], entries[1]["people"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda s, e, p: s["model"].update(spent=Spent().record()), "running total"),
        (lambda s, e, p: s["model"].update(certificates=[]), "other certificates"),
        (lambda s, e, p: e[4]["certificate"].update(rows=[0, 1, 2]), "other certificates"),
        (lambda s, e, p: e[4]["certificate"].update(noise=9.0), "other certificates"),
        (lambda s, e, p: e[1].update(store="0" * 32), "another store's"),
        (lambda s, e, p: s.update(budget=[100.0, 0.5]), "settings"),
        (lambda s, e, p: (s.update(budget=[1, 0.5]), e[0].update(budget=[1, 0.5])), "not follow"),
        (lambda s, e, p: s.update(n_rows=61), "settings"),
        (lambda s, e, p: s["model"].update(step_size=1e-3), "settings"),
        (lambda s, e, p: s["model"].update(private=False), "settings"),
        (lambda s, e, p: s["model"]["schedule"].__setitem__(0, [50, 5.0]), "schedule"),
        (another_schedule, "does not follow"),
        (lambda s, e, p: e[1].update(kind="redraw"), "does not say"),
        (lambda s, e, p: e[1].update(n_rows=4), "does not say"),
        (without_people, "does not say"),
        (lambda s, e, p: p[1][0].update(rows=[]), "does not say"),
        (lambda s, e, p: p[1][0].update(rows=[0, 1, 2]), "rows that are left"),
        (lambda s, e, p: p[2][0].update(rows=p[1][0]["rows"]), "does not follow"),
        (lambda s, e, p: e[0].update(kind="release"), "begin with a fit"),
        (lambda s, e, p: e[4]["certificate"].update(parameters_sha256="0" * 64), "parameters"),
        (lambda s, e, p: e[2]["certificate"].update(conditional_on=[]), "schedule|scope"),
        (lambda s, e, p: e[4]["certificate"].update(total_epsilon=0.5), "does not follow"),
    ],
)
def test_a_store_that_was_rewritten_contradicts_itself(desk, receipts, tmp_path, change, complaint):
    noted = receipts[-1].head
    desk.close()
    edited(tmp_path / "store", change)
    with Desk.open(tmp_path / "store") as again:
        with pytest.raises((StoreDamaged, CertificateMismatch), match=complaint):
            check_store(again)
        with pytest.raises(LedgerMismatch, match="it was rewritten"):
            again.log().growth_from(noted)


@pytest.mark.parametrize(
    "change",
    [
        lambda s, e, p: e[1].update(certificate_sha256="0" * 64),
        lambda s, e, p: e[1]["certificate"].update(noise=9.0),
        lambda s, e, p: e[2]["certificate"].update(epsilon=0.5),
        lambda s, e, p: e[0].update(learning=[[50, 5.0]]),
    ],
)
def test_a_certificate_in_the_log_that_does_not_have_its_hash(desk, receipts, tmp_path, change):
    desk.close()
    edited(tmp_path / "store", change, certificates=False)
    with (
        Desk.open(tmp_path / "store") as again,
        pytest.raises(CertificateMismatch, match="does not have its hash, or does not follow"),
    ):
        check_store(again)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM people WHERE place = 1",
        "UPDATE people SET body = (SELECT body FROM people WHERE place = 2) WHERE place = 1",
        "UPDATE people SET body = CAST('{}' AS BLOB) WHERE place = 1",
        "INSERT INTO people SELECT place, 1, body FROM people WHERE place = 1",
        "DROP TABLE people",
    ],
)
def test_people_who_are_not_those_of_their_entry(desk, receipts, tmp_path, statement):
    desk.close()
    database = sqlite3.connect(tmp_path / "store" / "ledger.sqlite")
    database.execute(statement)
    database.commit()
    database.close()
    with Desk.open(tmp_path / "store") as again:
        for call in (lambda: check_store(again), again.forgotten):
            with pytest.raises(LedgerMismatch, match="the people of entry 1 were altered"):
                call()


def test_a_strange_file_in_the_folder(desk, tmp_path):
    (tmp_path / "store" / "copy.npy").write_bytes(b"old")
    with pytest.raises(StoreDamaged, match=r"copy\.npy is not one of its files"):
        check_store(desk)


def test_a_digest_that_was_put_back(desk, receipts, tmp_path):
    """Somebody writes the digests anew, and every hash up to the head."""
    desk.close()
    store = tmp_path / "store"
    (folder,) = store.glob("arrays-*")
    digests = np.load(folder / "digests.npy")
    digests[9] = 7
    np.save(folder / "digests.npy", digests)
    sha256 = hashlib.sha256((folder / "digests.npy").read_bytes()).hexdigest()
    edited(store, lambda s, e, p: s["arrays"].update(digests=sha256))
    with Desk.open(store) as again, pytest.raises(StoreDamaged, match="rows that are left"):
        check_store(again)


def test_evidence_of_other_rows_is_noticed(desk, receipts, parquet):
    """Evidence that is consistent in itself, but not that of the rows."""
    receipt = receipts[0]
    evidence = json.loads(receipt.to_json())["certificate"]["evidence"]
    evidence["directions"] = [[0.5 * x, 0.5 * s, n] for x, s, n in evidence["directions"]]
    forged = dataclasses.replace(
        receipt.certificate,
        evidence=evidence,
        evidence_sha256=hashlib.sha256(canonical(evidence)).hexdigest(),
    )
    wrong = dataclasses.replace(receipt, certificate=forged)
    with pytest.raises(CertificateMismatch, match="evidence is not that of the rows"):
        check_against_data(wrong, desk.read(), people_in(desk.store), parquet)


def test_what_is_said_twice_is_refused(receipts):
    text = receipts[0].to_json()
    twice = text.replace('"place": 1', '"place": 0,\n "place": 1')
    assert twice != text
    with pytest.raises(CertificateMismatch):
        Receipt.from_json(twice)
    certificate = receipts[0].certificate.to_json()
    with pytest.raises(CertificateMismatch, match="twice"):
        Certificate.from_json(certificate.replace('"epsilon":', '"epsilon":0.1,"epsilon":', 1))


def test_coefficients_are_bound_to_the_log(desk, receipts, parquet, tmp_path):
    record = json.loads(json.dumps(desk.release()))
    assert all(check_release(record, desk.log()).values())
    other = {**record, "intercept": [0.0]}
    with pytest.raises(CertificateMismatch, match="do not have the hash"):
        check_release(other, None)
    with (
        LangevinDesk.create(
            tmp_path / "second", parquet, COLUMNS, n_steps=50, noise=0.01
        ) as second,
        pytest.raises(CertificateMismatch, match="not released by this store"),
    ):
        check_release(record, second.log())


def test_proofs_are_checked_without_the_store(desk, receipts):
    noted = receipts[0].head
    log = desk.log()
    growth, place, head = proof_of_growth(log, noted), proof_of_place(log, 2), log.head
    assert str(noted) in check_proof(json.loads(json.dumps(growth)))["says"]
    assert "place 2" in check_proof(json.loads(json.dumps(place)))["says"]
    entry = {**place["entry"], "kind": "redraw"}
    other = str(Head(noted.size, bytes(32)))
    for forged in (
        {**place, "entry": entry},
        {**place, "place": 3},
        {**place, "steps": place["steps"][:-1]},
        {**growth, "older": other},
        {**growth, "newer": str(Head(head.size, bytes(32)))},
        {**growth, "steps": [*growth["steps"], "00" * 32]},
        {**growth, "steps": "zz"},
        {"schema": "pilu.proof.growth/1"},
    ):
        with pytest.raises(LedgerMismatch):
            check_proof(forged)


def test_nothing_but_receipts_is_read_as_one(receipts):
    good = json.loads(receipts[0].to_json())
    for wrong in (
        "",
        "[]",
        "{}",
        json.dumps({**good, "more": 1}),
        json.dumps({**good, "schema": "pilu.receipt/4"}),
        json.dumps({**good, "schema": "pilu.receipt/2"}),
        json.dumps({**good, "place": "1"}),
        json.dumps({**good, "place": True}),
        json.dumps({**good, "head": "2:00"}),
        json.dumps({**good, "inclusion": ["xy"]}),
        json.dumps({**good, "entry": []}),
        json.dumps({**good, "evidence": {}}),
        json.dumps({**good, "certificate": {}}),
        json.dumps({**good, "certificate": None}),
        json.dumps({**good, "person": {}}),
        json.dumps({**good, "person": []}),
        json.dumps({**good, "person": {**good["person"], "place": True}}),
        json.dumps({**good, "person": {**good["person"], "record": []}}),
        json.dumps({**good, "person": {**good["person"], "inclusion": ["xy"]}}),
    ):
        with pytest.raises(CertificateMismatch):
            Receipt.from_json(wrong)
    with pytest.raises(CertificateMismatch):
        Receipt.from_json(json.dumps({**good, "entry": {}})).verify()


def test_the_queue_is_read_off_the_log(desk):
    """First come, first served among those with one date."""
    for person in ("person number 5", "person number 2", "person number 8"):
        desk.request(person)
    hashes = [one.name for one in desk.pending()]
    asked = [
        one["subject"] for _, people in sorted(people_in(desk.store).items()) for one in people
    ]
    assert hashes == asked
    times = [entry.record["time"] for entry in desk.log().entries[1:]]
    assert [one.since for one in desk.pending()] == times
