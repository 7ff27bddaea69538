"""A refit store that an earlier version wrote opens, verifies and goes on.

    refit-3.tar.xz   7dd970f: a store of format 3, before there were entries about actions

In it are a table of 24 rows, a store of it that forgot one person and waits for another, the
receipt, and a release from before and from after.
"""

import json
import tarfile
from pathlib import Path

import pytest

from pilu.desk.checking import check_receipt, check_store
from pilu.desk.desk import Desk
from pilu.desk.receipt import Receipt
from pilu.desk.release import check_release

FORMATS = Path(__file__).parents[1] / "formats"


@pytest.fixture
def folder(tmp_path):
    with tarfile.open(FORMATS / "refit-3.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "refit"


def test_a_store_of_format_3_is_whole_and_its_receipt_verifies(folder):
    with Desk.open(folder / "store") as desk:
        assert desk.store.read_state()["format"] == "pilu.store/3"
        checks = check_store(desk, table=folder / "people.csv")
        assert checks["files_whole"]
        receipt = Receipt.from_json((folder / "receipt-1.json").read_text())
        assert check_receipt(receipt, desk)["in_the_log_of_the_store"]
        for name in ("model.json", "model-2.json"):
            release = json.loads((folder / name).read_text())
            assert check_release(release, desk.log())


def test_it_goes_on_in_the_present_format(folder):
    with Desk.open(folder / "store") as desk:
        before = desk.log().head
        outcome = desk.run(also=[desk.keyed("person 7")], table=folder / "people.csv")
        gone = {receipt.person.name for receipt in outcome.receipts}
        assert gone == {desk.keyed(name).hex() for name in ("person 5", "person 7")}
        assert desk.store.read_state()["format"] == "pilu.store/4"
        assert desk.verify(since=before)["log_grown_from_the_noted_head"]
        assert len(desk.rows_of_people()) == 9
