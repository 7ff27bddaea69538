"""The OpenAPI document is the committed one, and the service does as it says: fuzzed."""

import contextlib
import warnings
from collections import Counter
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from pilu.exceptions import WrongInput
from pilu.service.job import do
from pilu.service.openapi import document

ROOT = Path(__file__).parents[2]
CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def test_the_committed_document_is_that_of_the_code():
    """Write it again by `python -m pilu.service.openapi docs/openapi.json`."""
    assert (ROOT / "docs" / "openapi.json").read_text() == document()


@pytest.fixture(params=[3, pytest.param(60, marks=pytest.mark.slow)])
def n_examples(request):
    return request.param


@pytest.mark.parametrize("role", ["officer", "requester", None])
def test_fuzzed_calls_are_answered_as_documented(serving, call, role, n_examples):
    """No 500, no other status, type or shape than documented; afterwards the store is as before."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", serving.app)
    serving.service.job = in_this_process
    headers = {} if role is None else {"Authorization": f"Bearer {serving.tokens[role]}"}
    with serving.desk() as desk:
        before = desk.rows_of_people()
    asked = {"type": "access", "subject": "person 1"}
    made = call(role or "officer", "POST", "/v1/stores/people/requests", json=asked).json()
    real, seen = {"store": "people", "request": made["id"]}, Counter()
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            strategy = operation.as_strategy(generation_mode=mode)
            names = real if mode == GenerationMode.POSITIVE else {}
            fuzz(strategy, headers, n_examples, seen, names)
    wanted = {None: {401, 200}, "requester": {201, 403, 404, 422}, "officer": {200, 201, 404, 422}}
    assert wanted[role] <= set(seen)  # it got somewhere
    serving.run()
    with serving.desk() as desk:
        assert desk.rows_of_people() == before
        assert desk.verify()["files_whole"]


async def in_this_process(task):
    """What `Service.job` does, without starting a process for each call."""
    answer = do(task)
    if "refused" in answer:
        raise WrongInput(answer["refused"])
    return answer["done"]


def fuzz(strategy, headers, n_examples, seen, names):
    @settings(
        max_examples=n_examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def run(case):
        for name in names.keys() & case.path_parameters.keys():  # one that there is
            case.path_parameters[name] = names[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = case.call_and_validate(headers=headers, checks=CHECKS)
        seen[answer.status_code] += 1

    with contextlib.suppress(Unsatisfiable):  # nothing can be wrong about a call without inputs
        run()
