"""Stores and documents that earlier versions wrote open, verify and go on.

Each archive was written once by the code of a commit and is never written again:

    desk-1.tar.xz   84466fb: certificates and releases of format 1, signatures over plain hashes
    desk-2.tar.xz   49e1520: certificates and releases of format 2
    desk-3.tar.xz   18ecf5b: receipts of format 2, with what earlier releases told of everybody

In each are a table of twelve rows and a store for every kind of model.
"""

import json
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from desk.conftest import rows_of
from pilu.cli.app import app
from pilu.desk.checking import check_receipt, check_store
from pilu.desk.desk import Desk
from pilu.desk.receipt import Receipt
from pilu.desk.release import check_release
from pilu.desk.signing import check_signature
from pilu.exceptions import CertificateMismatch
from pilu.store.log import check_proof

FORMATS = Path(__file__).parent / "formats"
ASKED = {"n_unlearn_steps": 1, "epsilon": 1.0, "delta": 1e-4}


CERTIFICATES, RECEIPTS = {1: 1, 2: 2, 3: 2}, {1: 1, 2: 1, 3: 2}


@pytest.fixture(params=[1, 2, 3])
def number(request):
    return request.param


@pytest.fixture(params=["regression", "classification", "logistic", "huber"])
def kind(request):
    return request.param


@pytest.fixture
def unpacked(number, tmp_path):
    with tarfile.open(FORMATS / f"desk-{number}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.fixture
def folder(unpacked, kind):
    return unpacked / kind


def read(path):
    return Receipt.from_json(path.read_text())


def test_a_store_is_whole_and_true_to_its_table(folder, kind):
    with Desk.open(folder / "store") as desk:
        checks = check_store(desk, table=folder / "people.csv")
    is_ridge = kind in ("regression", "classification")
    assert checks["state_follows_from_the_log"]
    assert checks["rows_and_statistics_are_those_of_the_table"]
    assert checks["eigenbasis_is_that_of_the_statistics"] == is_ridge


def test_receipts_are_recomputed_and_found_in_the_log(folder, number, kind):
    receipts = sorted(folder.glob("receipt-*.json"))
    assert len(receipts) == (3 if kind == "regression" else 1)
    with Desk.open(folder / "store") as desk:
        for path in receipts:
            receipt = read(path)
            checks = check_receipt(receipt, desk, folder / "people.csv")
            assert json.loads(path.read_text())["schema"] == f"pilu.receipt/{RECEIPTS[number]}"
            tells = number == 3 and receipt.certificate.method != "redraw"
            assert checks["exposure_is_that_of_the_log"] == tells
            assert receipt.person is None
            assert receipt.certificate.schema == f"pilu.certificate/{CERTIFICATES[number]}"
            assert checks["epsilon_recomputed"]
            assert checks["in_the_log_of_the_store"]
            is_redraw = receipt.certificate.method == "redraw"
            is_exact = kind in ("regression", "classification")
            assert checks["inputs_checked_against_data"] == (is_exact and not is_redraw)


def test_a_store_goes_on(folder):
    """Quoted, unlearned from, emptied of its queue, released, and checked as a whole."""
    table = folder / "people.csv"
    with Desk.open(folder / "store") as desk:
        noted = desk.log().head
        assert [one.due for one in desk.pending()] == ["2027-01-31"]
        assert desk.quote(["person 4"], table, **ASKED).noise[0] > 0
        receipts = []
        outcome = desk.unlearn(
            "person 4", table=table, deliver=receipts.extend, redraw_if_needed=True, **ASKED
        )
        assert rows_of(outcome) == (8, 9)
        assert rows_of(desk.run(table=table, redraw_if_needed=True, **ASKED)) == (4, 5)
        desk.redraw(table=table)
        check_release(desk.release(), desk.log())
        desk.log().growth_from(noted)
        assert check_receipt(receipts[0], desk)["in_the_log_of_the_store"]
        check_receipt(read(folder / "receipt-first.json"), desk, table)
        assert all(
            found or "noted" in name or "eigenbasis" in name
            for name, found in check_store(desk, table=table).items()
        )


def test_a_request_brings_a_store_to_this_format_and_changes_no_parameters(folder):
    """So a release before it is one of the present parameters."""
    table = folder / "people.csv"
    with Desk.open(folder / "store") as desk:
        assert desk.store.read_state()["format"] == "pilu.store/2"
        entries = desk.log().entries
        last = max([entry.place for entry in entries if entry.certificate is not None])
        places = [entry.place for entry in entries if entry.kind == "release"]
        before = desk.read().model.fitted_.theta.tobytes()
        desk.request("person 4")
        assert desk.store.read_state()["format"] == "pilu.store/4"
        assert desk.read().model.fitted_.theta.tobytes() == before
        assert check_store(desk, table=table)
        (receipt,) = desk.unlearn("person 4", table=table, redraw_if_needed=True, **ASKED).receipts
        assert desk.pending()[0].due == "2027-01-31"
    assert receipt.exposure["n_releases"] == len(places) > 0
    assert receipt.exposure["n_of_other_parameters"] == sum(place < last for place in places)


def test_a_release_is_checked(folder, number):
    record = json.loads((folder / "release.json").read_text())
    assert record["schema"] == f"pilu.release/{CERTIFICATES[number]}"
    with Desk.open(folder / "store") as desk:
        assert all(check_release(record, desk.log()).values())
    with pytest.raises(CertificateMismatch, match="do not have the hash"):
        check_release({**record, "grid": 2 * record["grid"]}, None)


def test_a_signature_is_checked(unpacked):
    folder = unpacked / "regression"
    receipt = read(folder / "receipt-first.json")
    check_signature(receipt, folder / "public.pem")
    forged = {**receipt.entry, "time": "2000-01-01T00:00:00+00:00"}
    text = json.dumps({**json.loads(receipt.to_json()), "entry": forged})
    with pytest.raises(CertificateMismatch, match="for another receipt"):
        check_signature(Receipt.from_json(text), folder / "public.pem")


@pytest.mark.parametrize("number", [3], indirect=True)
def test_what_an_old_receipt_tells_of_everybody_is_checked(folder):
    record = json.loads((folder / "receipt-first.json").read_text())
    exposure = record["exposure"]
    assert len(exposure["people"]) == 1
    for forged in ({**exposure, "n_releases": 7}, {**exposure, "people": {}}, None):
        with pytest.raises(CertificateMismatch, match="exposure"):
            Receipt.from_json(json.dumps({**record, "exposure": forged})).verify()
    later = {**record, "schema": "pilu.receipt/3"}
    with pytest.raises(CertificateMismatch, match="fields"):
        Receipt.from_json(json.dumps(later))


def test_proofs_are_checked(unpacked):
    folder = unpacked / "regression"
    for name in ("growth.json", "place.json"):
        assert check_proof(json.loads((folder / name).read_text()))


def test_the_command_line_verifies_all_of_it(unpacked):
    folder = unpacked / "regression"
    store, table = str(folder / "store"), str(folder / "people.csv")
    lines = [
        [store, "--table", table],
        *([str(path), "--store", store] for path in folder.glob("re*.json")),
        *([str(folder / name)] for name in ("growth.json", "place.json")),
    ]
    assert len(lines) == 7
    for line in lines:
        result = CliRunner().invoke(app, ["verify", *line])
        assert result.exit_code == 0, result.output
