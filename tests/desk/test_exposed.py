"""Receipts say what earlier releases told; the log keeps a hash of it and nothing else."""

import json

import numpy as np
import pytest

from pilu import LangevinRidge
from pilu.data.table import Columns
from pilu.desk.langevin_desk import LangevinDesk
from pilu.desk.receipt import Receipt
from pilu.exceptions import CertificateMismatch


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3)).round(3)
    y = (X @ [1.0, -1.0, 0.5] + 0.1 * rng.standard_normal(60)).round(3)
    lines = ["person,a,b,c,y"]
    lines += [
        f"p{i // 2},{a},{b},{c},{t}" for i, ((a, b, c), t) in enumerate(zip(X, y, strict=True))
    ]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines) + "\n")
    return path, X, y


@pytest.fixture
def desk(tmp_path, table):
    columns = Columns(target=("y",), subject="person")
    options = {"alpha": 1.0, "n_steps": 200, "noise": 0.3}
    with LangevinDesk.create(tmp_path / "store", table[0], columns, **options) as desk:
        yield desk


def forget(desk, subject):
    (receipt,) = desk.unlearn(subject).receipts
    return receipt


def test_the_number_is_that_of_the_model_itself(desk, table):
    """The same model, fitted in memory: exposure depends on its law alone."""
    _, X, y = table
    receipt = forget(desk, "p3")
    stated = receipt.exposure["epsilon"]
    step_size = desk.read().model.step_size_  # a store rounds it
    model = LangevinRidge(alpha=1.0, n_steps=200, noise=0.3, step_size=step_size).fit(X, y)
    assert stated == pytest.approx(model.exposure([[6, 7]]).epsilon[0], rel=1e-6)
    assert receipt.exposure["delta"] == pytest.approx(1 / 60)


def test_the_log_says_how_many_releases_had_a_person(desk):
    assert forget(desk, "p0").exposure["n_releases"] == 0
    desk.release()
    desk.release()
    exposure = forget(desk, "p1").exposure
    assert (exposure["n_releases"], exposure["n_of_other_parameters"]) == (2, 0)
    desk.release()
    exposure = forget(desk, "p2").exposure
    assert (exposure["n_releases"], exposure["n_of_other_parameters"]) == (3, 2)


def test_receipts_keep_it_and_notice_changes(desk):
    receipt = forget(desk, "p5")
    again = Receipt.from_json(receipt.to_json())
    assert again.exposure == receipt.exposure
    assert again.verify()["exposure_is_that_of_the_log"]
    record = json.loads(receipt.to_json())
    for name, value in (("n_releases", 7), ("delta", 1e-9), ("epsilon", 0.1), ("people", {})):
        forged = {**record, "exposure": {**record["exposure"], name: value}}
        with pytest.raises(CertificateMismatch, match="exposure"):
            Receipt.from_json(json.dumps(forged)).verify()
    with pytest.raises(CertificateMismatch, match="exposure"):
        Receipt.from_json(json.dumps({**record, "exposure": None})).verify()
    without = {name: value for name, value in record.items() if name != "exposure"}
    with pytest.raises(CertificateMismatch, match="fields"):
        Receipt.from_json(json.dumps(without))


def test_the_store_keeps_no_number(desk):
    receipt = forget(desk, "p7")
    epsilon = receipt.exposure["epsilon"]
    kept = b"".join(p.read_bytes() for p in desk.store.folder.rglob("*") if p.is_file())
    assert repr(epsilon).encode() not in kept
    assert receipt.exposure["nonce"].encode() not in kept
    assert np.float64(epsilon).tobytes() not in kept
