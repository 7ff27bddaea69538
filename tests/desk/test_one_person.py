"""The receipt of one person of a group: theirs, and nothing of anybody else."""

import base64
import dataclasses
import hashlib
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from pilu.data.names import hash_of
from pilu.data.table import Columns
from pilu.desk.checking import check_receipt, people_in
from pilu.desk.langevin_desk import LangevinDesk
from pilu.desk.receipt import Receipt
from pilu.desk.signing import make_keys
from pilu.exceptions import CertificateMismatch, LedgerMismatch

N = 4000
# Their rows have four digits, and little else in a receipt has.
GROUP = [f"person {k}" for k in (1001, 1044, 1100, 1203, 1250)]


def rows_of(name):
    number = int(name.split()[1])
    return [number, number + 1334, number + 2668]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store after two groups, their receipts, and the leaves of the first."""
    folder = tmp_path_factory.mktemp("group")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    columns = {"a": X[:, 0], "b": X[:, 1], "y": X.sum(axis=1) + rng.normal(size=N)}
    columns["person"] = [f"person {k % 1334}" for k in range(N)]
    pyarrow.parquet.write_table(pa.table(columns), folder / "t.parquet")
    make_keys(folder / "private", folder / "public")
    given = (folder / "store", folder / "t.parquet", Columns(("y",), None, "person"))
    with LangevinDesk.create(*given, n_steps=50, noise=0.05) as desk:
        options = {"n_unlearn_steps": 1, "sign": folder / "private"}
        first = desk.unlearn(GROUP, **options).receipts
        second = desk.unlearn(["person 7", "person 8"], **options).receipts
        yield desk, first, second, people_in(desk.store)[1]


@pytest.fixture(params=range(len(GROUP)))
def place(request):
    return request.param


def everything_in(receipt):
    """The file, and what is written in it in another alphabet."""
    text = receipt.to_json()
    signed = base64.b64decode(json.loads(text)["signature"]["payload"]).decode()
    return text + signed


def leaf(record):
    body = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(b"\x00" + body).hexdigest()


def test_everybody_has_a_receipt_with_their_own_rows(made):
    desk, receipts, _, leaves = made
    names = {hash_of(name, desk.store.key).hex(): name for name in GROUP}
    assert [receipt.person.record for receipt in receipts] == leaves
    assert {receipt.person.name for receipt in receipts} == set(names)
    for receipt in receipts:
        assert receipt.person.record["rows"] == rows_of(names[receipt.person.name])


def test_nothing_of_the_others_is_in_any_byte(made, place):
    _, receipts, _, leaves = made
    text = everything_in(receipts[place])
    numbers = {int(found) for found in re.findall(r"(?<![\w.+-])\d{4}(?![\w.-])", text)}
    assert numbers == set(leaves[place]["rows"])
    assert leaves[place]["subject"] in text
    for other in (leaves[k] for k in range(len(GROUP)) if k != place):
        exposure = next(r.exposure for r in receipts if r.person.name == other["subject"])
        for secret in (other["subject"], other["nonce"], other["exposure_sha256"]):
            assert secret not in text
            assert base64.b64encode(bytes.fromhex(secret)).decode().rstrip("=")[:-1] not in text
        assert exposure["nonce"] not in text
        if exposure["epsilon"] != receipts[place].exposure["epsilon"]:
            assert repr(exposure["epsilon"]) not in text
    assert not any(name in text for name in GROUP)


def test_no_candidate_can_be_tried_on_the_proof(made, place):
    """Somebody who knows the key and all about another person, but not the random number."""
    _, receipts, _, leaves = made
    text = everything_in(receipts[place])
    siblings = [k for k in range(len(GROUP)) if leaf(leaves[k]) in text]
    # With it, the hash is there: of the neighbour, and of the fifth, who is a subtree alone.
    assert siblings == ([] if place == 4 else [place ^ 1, 4])
    for other in leaves:
        assert len(bytes.fromhex(other["nonce"])) == 16
        for without in (
            {name: value for name, value in other.items() if name != "nonce"},
            {**other, "nonce": ""},
            {**other, "nonce": "00" * 16},
            {**other, "nonce": leaves[place]["nonce"]},
            {"subject": other["subject"]},
            {"subject": other["subject"], "rows": other["rows"]},
        ):
            if without != leaves[place]:
                assert leaf(without) not in text
        for plain in (other["subject"], bytes.fromhex(other["subject"])):
            content = plain.encode() if isinstance(plain, str) else plain
            assert hashlib.sha256(content).hexdigest() not in text
            assert hashlib.sha256(b"\x00" + content).hexdigest() not in text
    assert len({one["nonce"] for one in leaves}) == len(leaves)


def test_it_is_verified_alone_and_against_the_store(made, place):
    desk, receipts, _, _ = made
    receipt = Receipt.from_json(receipts[place].to_json())
    assert receipt == receipts[place]
    checks = check_receipt(receipt, desk)
    assert checks["person_is_among_those_of_the_entry"]
    assert checks["exposure_is_that_of_the_log"]
    assert checks["in_the_log_of_the_store"]


@pytest.mark.parametrize(
    "change",
    [
        {"subject": "00" * 16},
        {"rows": [1, 2, 3]},
        {"rows": []},
        {"nonce": "00" * 16},
        {"exposure_sha256": "0" * 64},
        {"more": 1},
        *({name: None} for name in ("subject", "rows", "nonce", "exposure_sha256")),  # left out
    ],
)
def test_another_leaf_is_refused(made, place, change):
    receipt = made[1][place]
    record = {**receipt.person.record, **change}
    person = dataclasses.replace(
        receipt.person, record={name: value for name, value in record.items() if value is not None}
    )
    with pytest.raises((LedgerMismatch, CertificateMismatch)):
        dataclasses.replace(receipt, person=person).verify()


def test_another_place_or_proof_is_refused(made, place):
    receipt = made[1][place]
    person, proof = receipt.person, receipt.person.proof
    flipped = [
        (*proof[:k], bytes([step[0] ^ 1, *step[1:]]), *proof[k + 1 :])
        for k, step in enumerate(proof)
    ]
    wrong = [dataclasses.replace(person, proof=other) for other in flipped]
    wrong += [dataclasses.replace(person, place=k) for k in (-1, *range(6), 10**9) if k != place]
    wrong += [
        dataclasses.replace(person, proof=other)
        for other in ((), proof[:-1], proof[1:], (*proof, proof[-1]), proof[::-1])
        if other != proof
    ]
    for other in wrong:
        with pytest.raises(LedgerMismatch):
            dataclasses.replace(receipt, person=other).verify()
        again = Receipt.from_json(dataclasses.replace(receipt, person=other).to_json())
        with pytest.raises(LedgerMismatch):
            again.verify()


def test_people_and_exposures_cannot_be_exchanged(made, place):
    _, receipts, others, _ = made
    receipt, neighbour = receipts[place], receipts[place - 1]
    with pytest.raises(CertificateMismatch, match="exposure"):
        dataclasses.replace(receipt, exposure=neighbour.exposure).verify()
    with pytest.raises(CertificateMismatch, match="exposure"):
        dataclasses.replace(receipt, person=neighbour.person).verify()
    # with both it is the neighbour's own receipt
    both = {"person": neighbour.person, "exposure": neighbour.exposure}
    assert dataclasses.replace(receipt, **both) == neighbour
    for other in others:  # of another entry
        with pytest.raises(LedgerMismatch):
            dataclasses.replace(receipt, person=other.person, exposure=other.exposure).verify()
        with pytest.raises(LedgerMismatch):
            dataclasses.replace(other, person=receipt.person, exposure=receipt.exposure).verify()


def test_without_a_person_it_says_so(made):
    receipt = dataclasses.replace(made[1][0], person=None, exposure=None)
    assert not receipt.verify()["person_is_among_those_of_the_entry"]
