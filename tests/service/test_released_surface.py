"""What was released of the HTTP interface stays: calls go on, answers keep their fields.

`formats/openapi-1.json` is the surface of docs/openapi.json when it was released. Additions pass.
An operation may go once the same one is there under a higher version of its path. After a release,
write the surface again: `python tests/service/test_released_surface.py`.
"""

import copy
import json
import re
from pathlib import Path

import pytest

RELEASED = Path(__file__).parent / "formats" / "openapi-1.json"
DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"


def surface_of(document):
    """Operations and messages, each with what it has and what must be given.

    What it has are paths to fields with their types and values, as `body.rows[]: object`. So a type
    that changes is one that goes and one that comes.
    """
    operations = {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    surface = {name: surface_of_operation(one) for name, one in operations.items()}
    schemas = document["components"]["schemas"]
    sent = sent_schemas(operations.values(), schemas)
    for name, schema in schemas.items():
        musts = [] if name not in sent else schema.get("required", [])
        promised = (
            [] if name in sent else [f"{field} always" for field in schema.get("required", [])]
        )
        surface[name] = {"has": sorted({*fields(schema), *promised}), "required": sorted(musts)}
    return surface


def surface_of_operation(operation):
    has, required = set(), set()
    for parameter in operation.get("parameters", []):
        name = f"{parameter['in']} {parameter['name']}"
        has |= fields(parameter["schema"], name)
        required |= {name} if parameter.get("required") else set()
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        has |= fields(content["schema"], f"body {kind}")
    for status, answer in operation["responses"].items():
        has.add(status)
        for kind, content in answer.get("content", {}).items():
            has |= fields(content.get("schema", {}), f"{status} {kind}")
    return {"has": sorted(has), "required": sorted(required)}


def alternatives(schema):
    return [one for kind in ("anyOf", "oneOf", "allOf") for one in schema.get(kind, [])]


def fields(schema, name=""):
    """Fields within a schema, up to other messages, which have their own."""
    if "$ref" in schema:
        return {f"{name}: {schema['$ref'].removeprefix('#/components/schemas/')}"}
    found = set().union(*(fields(one, name) for one in alternatives(schema)))
    if not found:
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        found = {f"{name}: {value}" for value in values or [schema.get("type", "anything")]}
    for inner, of_it in schema.get("properties", {}).items():
        found |= fields(of_it, f"{name}.{inner}".lstrip("."))
    if "items" in schema:
        found |= fields(schema["items"], f"{name}[]")
    return found


def sent_schemas(operations, schemas):
    """Names of the messages that callers send."""
    waiting = [one["requestBody"] for one in operations if "requestBody" in one]
    found = set()
    while waiting:
        for name in re.findall(r"#/components/schemas/(\w+)", json.dumps(waiting.pop())):
            if name not in found:
                found.add(name)
                waiting.append(schemas[name])
    return found


def broken(released, now):
    """What callers of the released surface would miss, in words."""
    found = []
    for name, was in released.items():
        if name not in now:
            if not is_succeeded(name, now):
                found.append(f"{name} is gone")
            continue
        found += [f"{name} has no {x}" for x in set(was["has"]) - set(now[name]["has"])]
        new = set(now[name]["required"]) - set(was["required"])
        found += [f"{name} requires {x}" for x in new]
    return found


def is_succeeded(operation, now):
    """Whether the same operation is there under a higher version."""
    name, number = re.sub(r"/v\d+/", "/v/", operation), re.search(r"/v(\d+)/", operation)
    later = (re.search(r"/v(\d+)/", one) for one in now if re.sub(r"/v\d+/", "/v/", one) == name)
    return number is not None and any(int(one[1]) > int(number[1]) for one in later)


@pytest.fixture(scope="module")
def released():
    return json.loads(RELEASED.read_text())


@pytest.fixture
def document():
    return json.loads(DOCUMENT.read_text())


def test_the_document_keeps_what_was_released(released, document):
    assert broken(released, surface_of(document)) == []


def test_additions_pass(released, document):
    schemas = document["components"]["schemas"]
    schemas["StoreState"]["properties"]["more"] = {"type": "string"}
    schemas["StoreState"]["required"].append("more")  # an answer may promise more
    schemas["Person"]["properties"]["more"] = {"type": "string"}
    document["paths"]["/v1/more"] = copy.deepcopy(document["paths"]["/v1/stores"])
    assert broken(released, surface_of(document)) == []


REQUESTS, TOKENS = "/v1/stores/{store}/requests", "/v1/tokens"


def without_a_path(document):
    del document["paths"][TOKENS]


def without_a_method(document):
    del document["paths"][REQUESTS]["get"]


def without_a_status(document):
    del document["paths"][REQUESTS]["post"]["responses"]["200"]


def without_a_parameter(document):
    document["paths"][REQUESTS]["get"]["parameters"].pop()


def with_a_must_for_a_parameter(document):
    document["paths"][REQUESTS]["get"]["parameters"][-1]["required"] = True


def without_a_field_of_an_answer(document):
    del document["components"]["schemas"]["RequestState"]["properties"]["due"]


def without_a_promise_of_a_field(document):
    document["components"]["schemas"]["RequestState"]["required"].remove("due")


def with_another_type(document):
    document["components"]["schemas"]["StoreState"]["properties"]["n_rows"]["type"] = "string"


def without_a_value(document):
    document["components"]["schemas"]["NewToken"]["properties"]["role"]["enum"].pop()


def with_a_must_in_a_call(document):
    document["components"]["schemas"]["Erasure"]["required"].append("due")


def with_a_new_must(document):
    person = document["components"]["schemas"]["Person"]
    person["properties"]["reason"] = {"type": "string"}
    person["required"].append("reason")


CHANGES = [
    without_a_path,
    without_a_method,
    without_a_status,
    without_a_parameter,
    with_a_must_for_a_parameter,
    without_a_field_of_an_answer,
    without_a_promise_of_a_field,
    with_another_type,
    without_a_value,
    with_a_must_in_a_call,
    with_a_new_must,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_callers_would_miss_fails(released, document, change):
    change(document)
    assert broken(released, surface_of(document))


def test_a_path_may_go_once_a_later_version_has_it(released, document):
    document["paths"]["/v2/tokens"] = document["paths"].pop(TOKENS)
    assert broken(released, surface_of(document)) == []
    del document["paths"]["/v2/tokens"]["post"]
    assert "POST /v1/tokens is gone" in broken(released, surface_of(document))


if __name__ == "__main__":
    found = surface_of(json.loads(DOCUMENT.read_text()))
    RELEASED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
