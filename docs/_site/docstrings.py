"""Docstrings are plain text: formulas stand in indented blocks, and | and * are what they are."""

import re
from dataclasses import is_dataclass
from importlib import import_module

MODULES = (
    "pilu.exceptions",
    "pilu.accounting",
    "pilu.auditing",
    "pilu.baselines",
    "pilu.client",
    "pilu.datasets",
    "pilu.desk",
    "pilu.losses",
    "pilu.plotting",
    "pilu.tabular",
    "pilu",
)
ARRAY = re.compile(
    r"(~?numpy\.ndarray)\[~?tuple\[~?typing\.Any, \.\.\.\], ~?numpy\.dtype\[[^]]*\]\]"
)
CODE = re.compile(r"(``.+?``|`[^`]+`)")


def setup(app):
    """Before napoleon, which reads the sections."""
    app.connect("autodoc-process-docstring", to_rst, priority=100)
    app.connect("autodoc-skip-member", is_of_scikit_learn)
    app.connect("autodoc-process-signature", without_fields)


def is_of_scikit_learn(app, what, name, obj, skip, options):
    """What estimators inherit, such as `get_params`, is explained elsewhere."""
    return True if str(getattr(obj, "__module__", "")).startswith("sklearn") else None


def without_fields(app, what, name, obj, options, signature, returned):
    """Nobody makes a record by hand: its fields are listed as attributes. Arrays are short."""
    listed = what == "class" and is_dataclass(obj) and "\n    Attributes\n" in (obj.__doc__ or "")
    if listed:
        return "", None
    if signature is None:
        return None
    return ARRAY.sub(r"\1", signature), ARRAY.sub(r"\1", returned or "") or None


def public_names():
    """Each name without its module -> where the reference has it."""
    found = {}
    for module in MODULES:
        for name in getattr(import_module(module), "__all__", ()):
            found[name] = f"{module}.{name}"
    return found


def to_rst(app, what, name, obj, options, lines):
    """Make indented blocks and trees literal, and escape what reStructuredText would read."""
    done: list[str] = []
    blank, above, literal, doctest = True, 0, None, False
    text = "\n".join(lines)
    trees = {
        line
        for part in text.split("\n\n")
        if "|-- " in part or "`-- " in part
        for line in part.splitlines()
    }
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            blank, doctest = True, False
            done.append(line)
            continue
        if line in trees:
            done += ["::", ""] if blank else []
            done.append("    " + line)
            blank = False
            continue
        if literal is not None and indent < literal:
            literal = None
        if literal is None and blank and indent > above and done:
            literal = indent
            done += [" " * above + "::", ""]
        doctest = doctest or line.lstrip().startswith(">>>")
        if literal is None:
            done.append(line if doctest else escaped(line))
            above = indent
        else:
            done.append(line)
        blank = False
    lines[:] = done


def escaped(line, public=public_names()):  # noqa: B008
    """Backticks mean code, with a link if the name is public; bars and stars mean themselves."""
    parts = CODE.split(line)
    for i, part in enumerate(parts):
        if i % 2 == 0:
            part = re.sub(r"([|*])", r"\\\1", part)
            parts[i] = re.sub(r"(\w)_(?!\w)", r"\1\\_", part)
        elif part.strip("`") in public:
            parts[i] = f":py:obj:`{part.strip('`')} <{public[part.strip('`')]}>`"
        else:
            parts[i] = f"``{part.strip('`')}``"
    return "".join(parts)
