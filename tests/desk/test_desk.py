"""The desk against the estimator in memory, and what is left in its files."""

import copy
import dataclasses
from collections.abc import Mapping
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from desk.conftest import COLUMNS, N, rows_of
from pilu import CertificateMismatch, LangevinRidge, LangevinRidgeClassifier, verify
from pilu.certify.coarse import CoarseExact
from pilu.data import table as table_module
from pilu.data.names import hash_of
from pilu.data.table import Columns
from pilu.desk.desk import Desk
from pilu.desk.langevin_desk import LangevinDesk
from pilu.desk.release import release_record
from pilu.exceptions import (
    AlreadyForgotten,
    BudgetSpent,
    DoneWithTrouble,
    LedgerMismatch,
    RowsChanged,
    StoreDamaged,
)
from pilu.store import merkle


def coarse_step_size(X):
    """The next eighth of an octave below 1/L."""
    L = np.linalg.norm(np.column_stack([X, np.ones(len(X))]), 2) ** 2 + 1e-4
    return 2 ** (np.floor(-8 * np.log2(L)) / 8)


def eighths(noise):
    """The next eighth of an octave above."""
    return 2 ** (np.ceil(8 * np.log2(noise)) / 8)


@pytest.fixture
def model(rows):
    settings = {"n_steps": 50, "noise": 0.01, "step_size": coarse_step_size(rows[0])}
    return LangevinRidge(**settings).fit(*rows)


@pytest.mark.parametrize("kind", ["parquet", "csv", "npz"])
def test_quotes_are_those_of_the_estimator(kind, request, model, tmp_path):
    path = request.getfixturevalue(kind)
    with LangevinDesk.create(tmp_path / "a store", path, COLUMNS, n_steps=50, noise=0.01) as desk:
        found = desk.quote(["person number 3", "person number 19"], n_unlearn_steps=1)
    expected = model.quote([[9, 10, 11], [57, 58, 59]], n_unlearn_steps=1)
    assert (expected.noise > 0).all()
    np.testing.assert_allclose(found.noise, eighths(expected.noise), rtol=1e-12)
    assert found.requests == expected.requests


def test_a_deletion_is_certified_and_logged(desk):
    outcome = desk.unlearn("person number 3", epsilon=1.0)
    certificate = outcome.certificate
    assert certificate.rows == ()  # they are the person's own affair
    assert rows_of(outcome) == (9, 10, 11)
    assert verify(certificate)
    records = [entry.record for entry in desk.log().entries]
    kinds, kept = [record["kind"] for record in records], records[1]["certificate"]
    assert kinds == ["fit", "unlearn"]
    assert kept["evidence"] is None
    assert kept["evidence_sha256"] == certificate.evidence_sha256
    assert records[1]["certificate_sha256"] == certificate.sha256
    assert (outcome.place, outcome.head) == (1, desk.log().head)
    assert outcome.receipts[0].certificate == certificate


def test_several_people_go_as_one_group(desk):
    names = ["person number 3", "person number 7"]
    outcome = desk.unlearn(names, epsilon=1.0)
    assert rows_of(outcome) == (9, 10, 11, 21, 22, 23)
    assert desk.log().head.size == 2
    hashes = {hash_of(name, desk.store.key).hex() for name in names}
    assert {receipt.person.name for receipt in outcome.receipts} == hashes
    with pytest.raises(AlreadyForgotten):
        desk.unlearn(["person number 4", "person number 7"], epsilon=1.0)
    with pytest.raises(AlreadyForgotten, match="'person number 3', 'person number 7' have already"):
        desk.unlearn([*names, "person number 4"], epsilon=1.0)
    with pytest.raises(ValueError, match="got unknown 'somebody', 'nobody'"):
        desk.request(["somebody", "person number 4", "person number 3", "nobody"])
    for wrong in ([], ["person number 4", "person number 4"]):
        with pytest.raises(ValueError, match="subjects must"):
            desk.unlearn(wrong, epsilon=1.0)
    assert desk.log().head.size == 2


def test_later_requests_go_on_where_the_store_was(desk, model, tmp_path):
    """Closed and opened in between: schedules and totals are those of one model in memory."""
    coarse = {"n_unlearn_steps": 1, "accountant": CoarseExact()}
    for person, rows in (("person number 3", [9, 10, 11]), ("person number 7", [21, 22, 23])):
        expected = model.unlearn(rows, **coarse)
        assert expected.noise > 0
        with Desk.open(tmp_path / "store") as again:
            found = again.unlearn(person, n_unlearn_steps=1).certificate
        assert found.total_epsilon == pytest.approx(expected.total_epsilon, rel=1e-9)
        assert found.total_delta == pytest.approx(expected.total_delta, rel=1e-9)
        np.testing.assert_allclose(found.schedule, expected.schedule, rtol=1e-9)
        assert len(found.conditional_on) == len(expected.conditional_on)


def test_what_the_store_keeps_is_what_a_fit_without_the_rows_has(desk, rows, tmp_path):
    desk.unlearn("person number 3", epsilon=1.0)
    left = np.delete(np.arange(N), [9, 10, 11])
    X = np.column_stack([rows[0], np.ones(N)])[left]
    (folder,) = (tmp_path / "store").glob("arrays-*")
    np.testing.assert_allclose(np.load(folder / "gram.npy"), X.T @ X, atol=1e-12)
    np.testing.assert_allclose(np.load(folder / "cross.npy")[:, 0], X.T @ rows[1][left], atol=1e-12)
    values = np.linalg.eigvalsh(X.T @ X) + 1e-4
    np.testing.assert_allclose(np.load(folder / "eigenvalues.npy"), values, rtol=1e-10)
    digests = np.load(folder / "digests.npy")
    assert not digests[[9, 10, 11]].any()
    assert digests[left].any(axis=1).all()


def numbers_of(record):
    """All numbers in a nest of records, the running total's aside: later totals need it."""
    if isinstance(record, Mapping):
        return [n for key, part in record.items() if key != "prior" for n in numbers_of(part)]
    if isinstance(record, tuple | list):
        return [n for part in record for n in numbers_of(part)]
    return [record] if isinstance(record, float) else []


def test_nothing_of_a_person_is_left_in_any_file(desk, rows, tmp_path):
    """Every byte of every file is searched for what must be gone."""
    store = tmp_path / "store"
    (folder,) = store.glob("arrays-*")
    gone = {
        "an earlier parameter": np.load(folder / "theta.npy").tobytes(),
        "the earlier statistics": np.load(folder / "gram.npy").tobytes(),
        "the earlier eigenbasis": np.load(folder / "basis.npy")[0].tobytes(),
        "a digest": np.load(folder / "digests.npy")[10].tobytes(),
    }
    for row in (9, 10, 11):
        for k, value in enumerate([*rows[0][row], rows[1][row]]):
            gone[f"value {k} of row {row}"] = np.float64(value).tobytes()
            gone[f"value {k} of row {row} as float32"] = np.float32(value).tobytes()
            gone[f"value {k} of row {row} as text"] = repr(float(value))[:9].encode()
    gone |= {"the person": b"person number 3", "a row's name": b"row number 10"}
    before = b"".join(p.read_bytes() for p in store.rglob("*") if p.is_file())
    assert all(gone[name] in before for name in ("an earlier parameter", "a digest"))
    certificate = desk.unlearn("person number 3", epsilon=1.0).certificate
    public = certificate.without_evidence().to_json()
    evidence = {str(number) for number in numbers_of(certificate.evidence)}
    hidden = {text for text in evidence if len(text) > 12 and text not in public}
    assert hidden
    gone |= {f"evidence {text}": text.encode() for text in hidden}
    for path in store.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            for what, pattern in gone.items():
                assert pattern not in content, f"{what} is in {path.name}"


def test_nobody_twice_and_nobody_unknown(desk):
    desk.unlearn("person number 3", epsilon=1.0)
    with pytest.raises(AlreadyForgotten, match="has already been forgotten; nothing was changed"):
        desk.unlearn("person number 3", epsilon=1.0)
    with pytest.raises(ValueError, match="got unknown 'somebody'"):
        desk.unlearn("somebody", epsilon=1.0)
    assert desk.log().head.size == 2


def test_a_budget_is_kept(parquet, tmp_path):
    settings = {"n_steps": 50, "noise": 0.01, "budget_epsilon": 1.5, "budget_delta": 0.5}
    with LangevinDesk.create(tmp_path / "small", parquet, COLUMNS, **settings) as desk:
        first = desk.unlearn("person number 3", epsilon=1.0, n_unlearn_steps=1)
        spent = first.certificate.total_epsilon
        assert spent > 0.5
        assert desk.left()[0] == pytest.approx(1.5 - spent)
        with pytest.raises(BudgetSpent, match=r"epsilon = 2, past the budget of 1\.5\. .*redraw"):
            desk.unlearn("person number 4", epsilon=1.0, n_unlearn_steps=1)
        assert desk.left()[0] == pytest.approx(1.5 - spent)
        outcome = desk.unlearn(
            "person number 4", epsilon=1.0, n_unlearn_steps=1, redraw_if_needed=True
        )
        assert outcome.certificate.method == "redraw"
        assert rows_of(outcome) == (12, 13, 14)
        assert desk.left() == (1.5, 0.5)


def test_a_redraw_fills_the_budget(desk):
    desk.unlearn("person number 3", epsilon=1.0)
    assert desk.redraw().certificate.epsilon == 0.0
    assert desk.left() == (10.0, 20 / N)


def test_rows_are_read_from_the_table_as_it_is_now(desk, arrow_table, parquet):
    """Without the forgotten rows it will do as well; with other values it will not."""
    desk.unlearn("person number 3", epsilon=1.0)
    kept = arrow_table.filter(pa.array([i not in (9, 10, 11) for i in range(N)]))
    pyarrow.parquet.write_table(kept, parquet)
    assert rows_of(desk.unlearn("person number 7", epsilon=1.0)) == (21, 22, 23)
    where = kept.column_names.index("f0")
    other = kept.set_column(where, "f0", pa.array(np.arange(len(kept), dtype=float)))
    pyarrow.parquet.write_table(other, parquet)
    with pytest.raises(RowsChanged, match="are not those that the model was fitted on"):
        desk.unlearn("person number 8", epsilon=1.0)
    pyarrow.parquet.write_table(kept.slice(0, 20), parquet)
    with pytest.raises(RowsChanged, match="has lost 3 row"):
        desk.unlearn("person number 8", epsilon=1.0)


def test_classes(arrow_table, rows, tmp_path):
    labels = np.where(rows[1] > 0, "up", "down")
    where = arrow_table.column_names.index("y")
    path = tmp_path / "classes.parquet"
    pyarrow.parquet.write_table(arrow_table.set_column(where, "y", pa.array(labels)), path)
    columns = Columns(("y",), "row_id", "person", classify=True)
    with LangevinDesk.create(tmp_path / "classes", path, columns, n_steps=50, noise=0.01) as desk:
        found = desk.quote(["person number 3"], n_unlearn_steps=1).noise
        assert set(desk.predict(rows[0])) <= {"up", "down"}
    step = coarse_step_size(rows[0])
    model = LangevinRidgeClassifier(n_steps=50, noise=0.01, step_size=step).fit(rows[0], labels)
    expected = model.quote([[9, 10, 11]], n_unlearn_steps=1).noise
    assert expected[0] > 0
    np.testing.assert_allclose(found, eighths(expected), rtol=1e-12)


def test_a_table_larger_than_a_batch_is_read_in_one_pass(parquet, rows, tmp_path, monkeypatch):
    monkeypatch.setattr(table_module, "BATCH_BYTES", 400)
    with LangevinDesk.create(tmp_path / "many", parquet, COLUMNS, n_steps=50, noise=0.01):
        (folder,) = (tmp_path / "many").glob("arrays-*")
        X = np.column_stack([rows[0], np.ones(N)])
        np.testing.assert_allclose(np.load(folder / "gram.npy"), X.T @ X, rtol=1e-12)


def test_ids_must_be_unique(arrow_table, tmp_path):
    where = arrow_table.column_names.index("row_id")
    path = tmp_path / "twice.parquet"
    names = ["a", "a", *[str(k) for k in range(N - 2)]]
    pyarrow.parquet.write_table(arrow_table.set_column(where, "row_id", pa.array(names)), path)
    with pytest.raises(ValueError, match="ids must be unique, got 'a' more than once"):
        LangevinDesk.create(tmp_path / "twice", path, COLUMNS)
    assert not (tmp_path / "twice").exists()


def test_a_folder_with_files_is_left_alone(parquet, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match="must be a new or empty folder"):
        LangevinDesk.create(tmp_path / "full", parquet, COLUMNS)
    with pytest.raises(ValueError, match="must be a store"):
        Desk.open(tmp_path / "full")


@pytest.mark.parametrize("name", ["theta.npy", "basis.npy", "digests.npy"])
def test_an_altered_array_is_noticed(desk, tmp_path, name):
    (folder,) = (tmp_path / "store").glob("arrays-*")
    content = bytearray((folder / name).read_bytes())
    content[-3] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(StoreDamaged, match=rf"{name} was altered or cut"):
        desk.unlearn("person number 3", epsilon=1.0)
    assert desk.log().head.size == 1


def test_arrays_of_a_run_that_was_killed_are_cleared_away(desk, tmp_path):
    store = tmp_path / "store"
    (store / "arrays-1").mkdir()
    (store / "arrays-1" / "theta.npy").write_bytes(b"half")
    with Desk.open(store) as again:
        assert again.store.recovered == "a change was interrupted: the store is as before it."
        assert [p.name for p in store.glob("arrays-*")] == ["arrays-0"]
        assert again.unlearn("person number 3", epsilon=1.0)
    assert [p.name for p in store.glob("arrays-*")] == ["arrays-1"]


def test_a_second_process_is_told_to_wait(desk, tmp_path):
    with (
        Desk.open(tmp_path / "store", patience=0.05) as second,
        desk.store.ledger.writing(),
        pytest.raises(StoreDamaged, match="in use by another process"),
    ):
        second.unlearn("person number 3")


def test_a_reader_neither_waits_nor_is_waited_for(desk, tmp_path, rows):
    with (
        Desk.open(tmp_path / "store", patience=0.05) as second,
        desk.store.ledger.writing(),
    ):
        assert len(second.predict(rows[0])) == N
        assert second.left() == (10.0, 20 / N)


def test_a_log_that_was_edited_is_noticed(desk):
    desk.unlearn("person number 3", epsilon=1.0)
    noted = desk.log().head
    desk.log().growth_from(noted)
    desk.unlearn("person number 4", epsilon=1.0)
    desk.log().growth_from(noted)

    def after(*statements):
        database = desk.store.ledger._database
        for statement in statements:
            database.execute(statement)
        # one who edits makes the head anew as well
        bodies = [row[0] for row in database.execute("SELECT body FROM entries ORDER BY place")]
        leaves = [merkle.leaf(bytes(body)) for body in bodies]
        return str(merkle.head(leaves))

    after("BEGIN", "UPDATE entries SET body = CAST('{}' AS BLOB) WHERE place = 1")
    with pytest.raises(LedgerMismatch, match="does not have the head that is kept with it"):
        desk.store.ledger.log  # noqa: B018
    for statement, complaint in (
        ("UPDATE entries SET body = CAST('{}' AS BLOB) WHERE place = 1", "it was rewritten"),
        ("DELETE FROM entries WHERE place = 1", "an entry is missing"),
        ("DELETE FROM entries WHERE place > 0", "it was cut short"),
        ("UPDATE entries SET place = 5 - place WHERE place > 0", "an entry is missing"),
    ):
        database = desk.store.ledger._database
        database.execute("ROLLBACK")
        database.execute("BEGIN")
        head = after(statement)
        database.execute("UPDATE head SET body = ?", (head,))
        with pytest.raises(LedgerMismatch, match=complaint):
            desk.store.ledger.log.growth_from(noted)
    desk.store.ledger._database.execute("ROLLBACK")


def test_everybody_who_waits_goes_as_one_group(desk, tmp_path):
    assert desk.run() is None
    desk.request("person number 5", date(2027, 3, 1))
    desk.request("person number 3")
    desk.request("person number 4", date(2027, 1, 1))
    desk.request("person number 5", date(2027, 2, 1))  # again, and sooner
    assert [one.due for one in desk.pending()] == ["2027-01-01", "2027-02-01", None]
    with Desk.open(tmp_path / "store") as again:
        assert rows_of(again.run(epsilon=1.0)) == tuple(range(9, 18))
        assert again.pending() == []
    with pytest.raises(AlreadyForgotten):
        desk.request("person number 4")
    with pytest.raises(ValueError, match="unknown"):
        desk.request("somebody")


def test_a_request_that_was_answered_otherwise_waits_no_more(desk):
    desk.request("person number 5")
    desk.unlearn("person number 5", epsilon=1.0)
    assert desk.pending() == []


def test_what_is_released_is_on_a_grid_well_below_the_noise(desk, tmp_path):
    certificate = desk.unlearn("person number 3", n_unlearn_steps=1).certificate
    record = desk.release()
    (folder,) = (tmp_path / "store").glob("arrays-*")
    theta = np.load(folder / "theta.npy")[:, 0]
    released = np.array([*record["coefficients"][0], *record["intercept"]])
    grid = record["grid"]
    assert np.log2(grid) == round(np.log2(grid))
    np.testing.assert_array_equal(released / grid, np.round(released / grid))
    np.testing.assert_allclose(released, theta, atol=0.5001 * grid)
    # one step's noise alone moves a parameter by hundreds of grid points
    step = np.sqrt(2 / np.load(folder / "eigenvalues.npy").max()) * certificate.noise
    assert grid < step / 100
    assert record["certificate_sha256"] == certificate.sha256
    assert desk.log().entries[-1].record["sha256"] == record["sha256"]


def test_a_release_is_a_function_of_the_rounded_parameters(desk):
    snapshot = desk.read()
    model, features = snapshot.model, snapshot.state["features"]
    record = release_record(model, features, None)
    fitted, grid = model.fitted_, record["grid"]
    middle = np.round(fitted.chain.theta / grid) * grid
    for share in (-0.49, -0.1, 0.3, 0.49):  # the low bits, and far more than those
        chain = dataclasses.replace(fitted.chain, theta=middle + share * grid)
        model.fitted_ = dataclasses.replace(fitted, chain=chain)
        assert release_record(model, features, None) == record


def test_a_stored_model_accepts_what_the_log_has_and_nothing_else(desk):
    first = desk.unlearn("person number 3", n_unlearn_steps=2).certificate
    model = desk.read().model
    assert model.verify(first)["issuer_checked"]
    redrawn = desk.redraw().certificate
    model = desk.read().model
    assert model.verify(redrawn)["issuer_checked"]
    named = {"parameters_sha256": redrawn.parameters_sha256}
    for forged in (
        dataclasses.replace(redrawn.without_evidence(), rows=(1,)),
        dataclasses.replace(first.without_evidence(), **named),
    ):
        with pytest.raises(CertificateMismatch, match="did not issue it"):
            model.verify(forged)


def test_a_stored_model_that_has_forgotten_nothing_accepts_nothing(desk):
    model = desk.read().model
    held = desk.log().entries[0].record["parameters_sha256"]
    foreign = copy.deepcopy(model).unlearn(method="redraw").without_evidence()
    with pytest.raises(CertificateMismatch, match="did not issue it"):
        model.verify(dataclasses.replace(foreign, parameters_sha256=held))


def test_predictions_of_a_table(desk, parquet, rows, tmp_path):
    assert desk.predict_table(parquet, tmp_path / "out.csv") == N
    found = np.loadtxt(tmp_path / "out.csv", skiprows=1)
    np.testing.assert_allclose(found, desk.predict(rows[0]), rtol=1e-12)
    other = pa.table({"f0": [1.0], "f1": [2.0]})
    pyarrow.parquet.write_table(other, tmp_path / "other.parquet")
    with pytest.raises(ValueError, match="must have a column 'f2'"):
        desk.predict_table(tmp_path / "other.parquet", tmp_path / "out.csv")
    assert len(np.loadtxt(tmp_path / "out.csv", skiprows=1)) == N  # the earlier file is whole


def test_the_state_does_not_tell_the_norm_of_the_rows(desk, rows, tmp_path):
    """An error with all its digits did: it grows by the ratio of two traces."""
    desk.unlearn("person number 3", epsilon=1.0)
    error = desk.store.read_state()["model"]["statistics"]["error"]
    quarters = 4 * np.log2(error)
    assert quarters == pytest.approx(round(quarters), abs=1e-9)
    assert error >= 2e-15


def test_a_receipt_that_cannot_be_delivered_waits_for_the_next_time(desk):
    def lost(receipts):
        raise OSError("no room")

    with pytest.raises(DoneWithTrouble, match=r"the change is done, but .* no room"):
        desk.unlearn("person number 3", epsilon=1.0, deliver=lost)
    with pytest.raises(AlreadyForgotten):
        desk.unlearn("person number 3", epsilon=1.0)
    assert desk.undelivered() == [1]
    with pytest.raises(DoneWithTrouble, match="no room"):
        desk.deliver_again(1, lost)
    handed = []
    outcome = desk.deliver_again(1, handed.extend)
    assert rows_of(outcome) == (9, 10, 11)
    assert tuple(handed) == outcome.receipts
    assert handed[0].verify()["exposure_is_that_of_the_log"]
    assert desk.undelivered() == []
    with pytest.raises(ValueError, match="were delivered already"):
        desk.deliver_again(1, handed.extend)


def test_a_table_in_another_order_with_other_people(desk, arrow_table, parquet):
    order = np.random.default_rng(1).permutation(N)
    moved = arrow_table.take(pa.array(order))
    pyarrow.parquet.write_table(moved, parquet)
    assert rows_of(desk.unlearn("person number 3", epsilon=1.0)) == (9, 10, 11)
    twice = pa.concat_tables([moved, moved.slice(0, 1)])
    pyarrow.parquet.write_table(twice, parquet)
    with pytest.raises(ValueError, match="ids must be unique"):
        desk.unlearn("person number 4", epsilon=1.0)


def test_ids_are_people_where_nobody_else_is_named(parquet, tmp_path):
    columns = Columns(("y",), "row_id", features=("f0", "f1"))
    with LangevinDesk.create(tmp_path / "ids", parquet, columns, n_steps=50, noise=0.01) as desk:
        assert rows_of(desk.unlearn("row number 7", epsilon=1.0)) == (7,)
    with pytest.raises(ValueError, match="without names no row can be forgotten"):
        LangevinDesk.create(tmp_path / "nobody", parquet, Columns(("y",)))


def test_the_step_size_does_not_tell_one_candidate_from_another(desk, rows):
    """Statistics that are left, and a guess at the row: 1/L in full would single it out."""
    step = desk.store.read_state()["model"]["step_size"]
    left = np.column_stack([rows[0], np.ones(N)])[3:]
    guesses = np.column_stack([np.random.default_rng(2).normal(size=(50, 4)), np.ones(50)])
    agreeing = 0
    for guess in guesses:
        L = np.linalg.norm(np.vstack([left, guess]), 2) ** 2 + 1e-4
        agreeing += 2 ** (np.floor(-8 * np.log2(L)) / 8) == step
    assert agreeing >= 40


@pytest.mark.parametrize("scale", [1e60, 1e-60])
def test_magnitudes_outside_of_the_proven_domain(arrow_table, tmp_path, scale):
    """As the estimator refuses them."""
    path = tmp_path / "huge.parquet"
    for name in ("f0", "f1", "f2", "f3"):
        where = arrow_table.column_names.index(name)
        values = pa.array(scale * arrow_table[name].to_numpy())
        arrow_table = arrow_table.set_column(where, name, values)
    pyarrow.parquet.write_table(arrow_table, path)
    with pytest.raises(ValueError, match="features must have its largest magnitude in"):
        LangevinDesk.create(tmp_path / "huge", path, COLUMNS, n_steps=50)
