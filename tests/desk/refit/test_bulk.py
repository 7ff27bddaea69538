"""Thousands of people in one run, receipts for each alone, and a log that grows by the request."""

import re

import pytest

from desk.refit.conftest import COLUMNS
from desk.refit.tables import make_rows, write
from pilu.certify.verify import verify
from pilu.data.names import hash_of
from pilu.desk.checking import check_receipt, check_store
from pilu.desk.desk import Desk
from pilu.desk.receipt import Receipt

SIZES = [2_000, pytest.param(10_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("n", SIZES)
def test_thousands_of_people_in_one_run(tmp_path, n):
    rows = make_rows(n + 400, rows_each=1)
    people = [row["person"] for row in rows[:n]]
    table = write(rows, tmp_path / "people.parquet", {"said", "weight"})
    with Desk.fit(tmp_path / "store", table, **COLUMNS | {"ignore": []}) as desk:
        desk.release()  # so that exposures are computed, too
        desk.request(people)
        assert len(desk.pending()) == n
        handed = []
        outcome = desk.run(deliver=handed.extend)
        assert len(handed) == n
        assert outcome.notes == (
            f"{n} row(s) of forgotten people are still in the table. `pilu table "
            f"{desk.folder} --rewrite FILE` writes it without them.",
        )
        assert {receipt.person.known_as for receipt in handed} == set(people)
        names = {hash_of(person, desk.store.key).hex(): person for person in people}
        log = desk.log()
        assert max(len(entry.body) for entry in log.entries) < 4_000
        for receipt in handed[:: n // 200]:
            text = receipt.to_json()
            mine = {receipt.person.name}
            assert set(re.findall("[0-9a-f]{32}", text)) & set(names) == mine
            assert not re.search(r"person \d", text)  # nor any name in the clear
            assert len(text) < 9_000
            again = Receipt.from_json(text)
            checks = again.verify()
            assert checks["person_is_among_those_of_the_entry"]
            assert checks["exposure_is_that_of_the_log"]
            assert again.person.record["rows"] == 1
            assert names[again.person.name] == receipt.person.known_as
            assert verify(again.certificate)
        assert check_receipt(handed[7], desk, table)["inputs_checked_against_data"]
        assert desk.undelivered() == []
        assert check_store(desk, table=table)
        assert desk.pending() == []


def test_everybody_in_a_run_has_other_secrets(tmp_path):
    """The receipt of one person does not help to guess who else was in the run."""
    table = write(make_rows(60), tmp_path / "people.csv")
    with Desk.fit(tmp_path / "store", table, **COLUMNS) as desk:
        receipts = desk.unlearn(["person 1", "person 2", "person 3"]).receipts
    records = [receipt.person.record for receipt in receipts]
    assert len({record["nonce"] for record in records}) == 3
    assert len({receipt.exposure["nonce"] for receipt in receipts}) == 3
    for receipt, others in ((r, [o for o in receipts if o is not r]) for r in receipts):
        text = receipt.to_json()
        for other in others:
            secrets = (other.person.name, other.person.record["nonce"], other.exposure["nonce"])
            assert not any(secret in text for secret in secrets)


def test_the_log_grows_with_requests_and_not_with_their_square(desk):
    for k in range(12):
        desk.unlearn(f"person {k}")
    sizes = [len(entry.body) for entry in desk.log().entries[1:]]
    assert max(sizes) - min(sizes) < 60
    receipts = [len(receipt.to_json()) for receipt in desk.unlearn(["person 20"]).receipts]
    assert receipts[0] < 9_000
