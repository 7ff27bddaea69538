"""Refit stores that earlier versions wrote open, verify and go on.

    refit-3.tar.xz   7dd970f: a store of format 3, before there were entries about actions
    refit-4.tar.xz   805eb3a: a store of format 4, a backup, a list of forgotten people, and what a
                     service wrote: its database, answers and a callback

In each are a table of 24 rows, a store of it that forgot one person and waits for another, the
receipt, and a release. Of format 3 there is a release from before, too.
"""

import json
import tarfile
from pathlib import Path

import pytest

from pilu.desk.checking import check_receipt, check_store
from pilu.desk.desk import Desk
from pilu.desk.receipt import Receipt
from pilu.desk.release import check_release
from pilu.desk.remembering import by_list
from pilu.desk.restoring import restore
from pilu.desk.signing import check_signature

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


@pytest.fixture
def present(tmp_path):
    with tarfile.open(FORMATS / "refit-4.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "refit"


def test_a_store_of_format_4_and_what_was_handed_out(present):
    with Desk.open(present / "stores" / "people") as desk:
        assert desk.store.read_state()["format"] == "pilu.store/4"
        assert check_store(desk, table=present / "people.csv")["rows_are_those_of_the_table"]
        text = (present / "receipt.json").read_text()
        assert json.loads(text)["schema"] == "pilu.receipt/3"
        receipt = Receipt.from_json(text)
        assert check_receipt(receipt, desk)["in_the_log_of_the_store"]
        check_signature(receipt, present / "public.pem")
        release = json.loads((present / "release.json").read_text())
        assert release["schema"] == "pilu.release/3"
        assert check_release(release, desk.log())["in_the_log_of_the_store"]
        desk.unlearn(["person 7"], table=present / "people.csv")
        assert len(desk.rows_of_people()) == 10


def test_a_backup_of_format_1_comes_back_without_the_forgotten(present):
    """The backup knows person 3, the list of format 1 that they were forgotten since."""
    assert json.loads((present / "forgotten.json").read_text())["schema"] == "pilu.forgotten/1"
    with tarfile.open(present / "backup.tar") as archive:
        (first, *_) = archive.getmembers()
        assert json.load(archive.extractfile(first))["schema"] == "pilu.backup/1"
    remembered = by_list(present / "forgotten.json")
    done = restore(
        present / "backup.tar", present / "restored", remembered, table=present / "people.csv"
    )
    assert done.forgotten_again == 1
    with Desk.open(present / "restored") as desk:
        gone = desk.keyed("person 3")
        assert gone in desk.forgotten().names
        assert gone not in desk.rows_of_people()
        assert len(desk.rows_of_people()) == 11
