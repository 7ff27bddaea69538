"""What this version cannot read is refused, unchanged, with a sentence that says what to do.

    store-1.tar.xz   e585d0b: a store of format 1, and what was handed out from it

The certificate and the release of that store are still read.
"""

import json
import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pilu import Certificate, verify
from pilu.cli.app import app
from pilu.desk.backups import back_up
from pilu.desk.desk import Desk
from pilu.desk.receipt import Receipt
from pilu.desk.release import check_release
from pilu.desk.remembering import by_list, by_store
from pilu.desk.restoring import restore
from pilu.exceptions import CertificateMismatch, LedgerMismatch, StoreDamaged, WrongInput
from pilu.store.log import check_proof

FORMATS = Path(__file__).parent / "formats"


def unpacked(name, folder):
    with tarfile.open(FORMATS / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def first(tmp_path):
    return unpacked("store-1", tmp_path) / "first"


@pytest.fixture
def later(tmp_path):
    return unpacked("refit-4", tmp_path) / "refit"


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def written(path, record, **changes):
    path.write_text(json.dumps({**record, **changes}))
    return path


def test_a_store_of_the_first_format_is_refused_and_left_as_it_is(first):
    before = contents(first)
    for use in (Desk.open, by_store, lambda store: back_up(store, first / "backup.tar")):
        with pytest.raises(StoreDamaged, match=r"pilu\.store/1, .* Fit a new store from the table"):
            use(first / "store")
    assert contents(first) == before


def test_what_was_handed_out_from_it_is_still_read(first):
    certificate = Certificate.from_json((first / "certificate.json").read_text())
    assert verify(certificate)["epsilon_recomputed"]
    assert check_release(json.loads((first / "model.json").read_text()), None)


def test_a_signed_certificate_is_no_receipt(first):
    """Certificates were signed, without their entries, for two hours before there were receipts."""
    result = CliRunner().invoke(app, ["verify", str(first / "signed.json")])
    assert result.exit_code == 2
    assert "must be a receipt, a release, a certificate or a proof" in result.output


def test_a_store_of_a_later_format(later, monkeypatch):
    monkeypatch.setattr("pilu.store.store._READABLE", ("pilu.store/3",))  # as the version before
    store = later / "stores" / "people"
    before = contents(store)
    with pytest.raises(StoreDamaged, match=r"'pilu\.store/4'\. Open it with the version of pilu"):
        Desk.open(store)
    assert contents(store) == before


@pytest.mark.parametrize("name", ["receipt.json", "release.json"])
def test_later_receipts_and_releases(later, name):
    record = json.loads((later / name).read_text())
    kind, number = record["schema"].split("/")
    text = json.dumps({**record, "schema": f"{kind}/{int(number) + 1}", "more": 1})
    read = (
        Receipt.from_json
        if name == "receipt.json"
        else lambda t: check_release(json.loads(t), None)
    )
    assert read((later / name).read_text())
    with pytest.raises(CertificateMismatch, match="with the version of pilu that wrote it"):
        read(text)


def test_a_later_certificate(later):
    record = json.loads((later / "receipt.json").read_text())["certificate"]
    assert Certificate.from_json(json.dumps(record))
    record |= {"schema": "pilu.certificate/3", "more": 1}
    with pytest.raises(CertificateMismatch, match="with the version of pilu that wrote it"):
        Certificate.from_json(json.dumps(record))


@pytest.mark.parametrize("name", ["growth.json", "place.json"])
def test_later_proofs(tmp_path, name):
    folder = unpacked("desk-3", tmp_path) / "regression"
    record = json.loads((folder / name).read_text())
    assert check_proof(record)
    later = record["schema"].replace("/1", "/2")
    with pytest.raises(LedgerMismatch, match="another version of pilu wrote it"):
        check_proof({**record, "schema": later})


def test_a_later_list_of_forgotten_people(later):
    path = later / "forgotten.json"
    assert by_list(path)
    record = json.loads(path.read_text())
    with pytest.raises(WrongInput, match="Write the list again with this version"):
        by_list(written(path, record, schema="pilu.forgotten/2"))


def test_a_later_backup(later, monkeypatch):
    restored = later / "restored"
    monkeypatch.setattr("pilu.desk.backups.FORMAT", "pilu.backup/0")  # as the version before
    with pytest.raises(WrongInput, match="Restore it with the version of pilu that wrote it"):
        restore(later / "backup.tar", restored, by_list(later / "forgotten.json"))
    assert not restored.exists()
