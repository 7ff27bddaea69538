"""A store of the paper's method behind the same API."""

import numpy as np
import pytest

from pilu.data.table import Columns
from pilu.desk.checking import check_receipt
from pilu.desk.langevin_desk import LangevinDesk
from pilu.desk.receipt import Receipt

N = 40


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(N, 3))
    lines = ["a,b,c,y,person"] + [
        ",".join([*map(str, row.tolist()), str(row.sum() + 0.1 * k), f"p{k // 2}"])
        for k, row in enumerate(X)
    ]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    columns = Columns(("y",), None, "person", features=("a", "b", "c"))
    with LangevinDesk.create(
        tmp_path / "stores" / "people", tmp_path / "people.csv", columns, n_steps=30, noise=0.05
    ):
        pass
    return tmp_path / "stores"


def test_it_quotes_forgets_and_predicts(serving, call):
    quote = call("officer", "POST", "/v1/stores/people/quote", json={"subjects": ["p3", "p4"]})
    said = quote.json()
    assert (said["n_people"], said["n_rows"], said["metric"]) == (2, 4, "rmse")
    assert said["after"] >= said["before"] > 0
    with serving.desk() as desk:
        expected = desk.predict(np.array([[0.5, -0.2, 1.0]]))
    rows = [{"a": 0.5, "b": -0.2, "c": 1.0}]
    predicted = call("predictor", "POST", "/v1/stores/people/predict", json={"rows": rows})
    assert predicted.json()["predictions"] == expected.tolist()
    path = "/v1/stores/people/requests"
    made = call("officer", "POST", path, json={"type": "erasure", "subject": "p3", "now": True})
    serving.run()
    number = made.json()["id"]
    receipt = Receipt.from_json(call("officer", "GET", f"/v1/requests/{number}/receipt").text)
    with serving.desk() as desk:
        assert check_receipt(receipt, desk)["in_the_log_of_the_store"]
        assert desk.verify()["files_whole"]
        assert len(desk.rows_of_people()) == N // 2 - 1
    assert call("officer", "GET", "/v1/stores/people").json()["method"] == "langevin"


@pytest.mark.parametrize("rows", [[{"a": 1}], [{"a": 1, "b": "x", "c": 2}], [{"a": True}]])
def test_rows_that_it_cannot_read(call, rows):
    answer = call("predictor", "POST", "/v1/stores/people/predict", json={"rows": rows})
    assert answer.status_code == 422
    assert "finite number in every column of the fit: a, b, c" in answer.json()["detail"]


def test_it_takes_no_new_rows(call):
    content = {"type": "addition", "rows": [{"a": 1, "b": 2, "c": 3, "y": 1, "person": "q"}]}
    answer = call("officer", "POST", "/v1/stores/people/requests", json=content)
    assert answer.status_code == 422
    assert "only a store of the method refit" in answer.json()["detail"]
