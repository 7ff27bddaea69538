"""The calls of the service as Markdown, from docs/openapi.json."""

import json
from pathlib import Path

DOCUMENT = Path(__file__).parents[1] / "openapi.json"


def markdown():
    """A section for each group of calls, one below it for each call, then the messages."""
    document = json.loads(DOCUMENT.read_text())
    groups: dict[str, list[str]] = {}
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            group = (call.get("tags") or ["Service"])[0]
            groups.setdefault(group, []).append(_call(method.upper(), path, call))
    parts = [document["info"]["description"].strip()]
    for group, calls in groups.items():
        parts += [f"## {group[:1].upper()}{group[1:]}", *calls]
    parts.append("## Messages")
    for name, schema in document["components"]["schemas"].items():
        parts.append(_message(name, schema))
    return "\n\n".join(parts)


def _call(method, path, call):
    parts = [f"### `{method} {path}`", _prose(call.get("description") or call["summary"])]
    if not call.get("security") and "no token" not in parts[-1]:
        parts.append("Needs no token.")
    rows = [
        (f"`{p['name']}` ({p['in']})", _type(p["schema"]), p.get("description", ""), p)
        for p in call.get("parameters", ())
    ]
    if rows:
        parts.append(_table("parameter", rows))
    if body := call.get("requestBody"):
        parts.append(f"Body: {_contents(body)}.")
    answers = []
    for status, answer in call["responses"].items():
        if status.endswith("XX"):
            continue  # a problem document, as said above
        what = _contents(answer) if answer.get("content") else "no body"
        answers.append(f"- `{status}` {answer['description'].rstrip('.')}: {what}")
    parts.append("\n".join(answers))
    return "\n\n".join(parts)


def _message(name, schema):
    parts = [f"### `{name}`"]
    if text := schema.get("description"):
        parts.append(_prose(text))
    if "enum" in schema:
        parts.append("One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + ".")
    required = schema.get("required", ())
    rows = [
        (f"`{field}`", _type(one), one.get("description", ""), {"required": field in required})
        for field, one in schema.get("properties", {}).items()
    ]
    if rows:
        parts.append(_table("field", rows))
    return "\n\n".join(parts)


def _table(head, rows):
    lines = [f"| {head} | type | |", "| --- | --- | --- |"]
    for name, kind, text, one in rows:
        told = f"{_prose(text)} {'Required.' if one.get('required') else ''}".strip()
        lines.append(f"| {name} | {kind} | {' '.join(told.split())} |".replace("\\|", "|"))
    return "\n".join(lines)


def _contents(answer):
    return ", ".join(
        f"{_type(schema)} as `{media}`" if (schema := content.get("schema")) else f"`{media}`"
        for media, content in answer["content"].items()
    )


def _type(schema):
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[`{name}`](#{name.lower()})"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(_type(one) for one in schema[key])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return f"{kind} ({schema['format']})" if "format" in schema else str(kind)


def _prose(text):
    return text.strip().replace("|", "\\|").replace("<", "&lt;")
