"""What each column of a table is. Decided at the first fit, then fixed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pilu.exceptions import WrongInput
from pilu.tabular.kinds import KINDS

TASKS = ("number", "class")
LABELS = ("text", "whole", "boolean")
BOUNDS = ("none", "non-negative", "positive")


@dataclass(frozen=True)
class Layout:
    """What each column of a table is.

    Attributes
    ----------
    target : str
        The column to predict.
    task : str
        "number" or "class".
    subject, id, weight : str or None
        Columns with the person, the name and the weight of a row.
    kinds : mapping
        Feature -> "number", "boolean", "date", "category" or "words", in the order of the table.
    left_out : mapping
        Column -> why it is not used, in words.
    labels : str or None
        The type of the classes: "text", "whole" (numbers) or "boolean"; None for a number.
    bound : str
        What the target must be: "none", "non-negative" or "positive".
    by_text : mapping
        Category -> "number" or "boolean", for columns of these types that are taken by their text.
    """

    target: str
    task: str
    subject: str | None
    id: str | None
    weight: str | None
    kinds: Mapping[str, str]
    left_out: Mapping[str, str]
    labels: str | None = None
    bound: str = "none"
    by_text: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """All columns that have to be read."""
        return [*self.names, self.target, *([self.weight] if self.weight else []), *self.kinds]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that name rows and people. They are read as text: 007 is not 7."""
        return tuple(name for name in (self.id, self.subject) if name is not None)

    @property
    def texts(self) -> tuple[str, ...]:
        """All columns that are to be read as text from a file that has no types."""
        label = (self.target,) if self.labels == "text" else ()
        held = (c for c in (*self.of("category"), *self.of("words")) if c not in self.by_text)
        return *self.names, *label, *held

    def of(self, *kinds: str) -> list[str]:
        """The features of some kinds, in the order of the table."""
        return [name for name, kind in self.kinds.items() if kind in kinds]

    def record(self) -> dict[str, Any]:
        """Plain JSON from which `from_record` makes an equal layout."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        # Pairs, because the order of columns has to survive JSON with sorted keys.
        return plain | {name: [list(p) for p in getattr(self, name).items()] for name in _PAIRS}

    @classmethod
    def from_record(cls, record: Any) -> "Layout":
        """The layout of a record."""
        if not isinstance(record, dict) or set(record) != {*_PLAIN, *_PAIRS}:
            raise WrongInput(
                f"a record of a layout must have {[*_PLAIN, *_PAIRS]}, got {record!r}."
            )
        values = {name: record[name] for name in _PLAIN}
        layout = cls(**values, **{name: _mapping(name, record[name]) for name in _PAIRS})
        _check(layout)
        return layout


_PLAIN = ("target", "task", "subject", "id", "weight", "labels", "bound")
_PAIRS = ("kinds", "left_out", "by_text")


def _mapping(name: str, pairs: Any) -> Any:
    fine = isinstance(pairs, list) and all(
        isinstance(p, list) and len(p) == 2 and all(isinstance(v, str) for v in p) for p in pairs
    )
    if not fine or len({p[0] for p in pairs}) != len(pairs):
        raise WrongInput(f"{name} of a layout must be pairs of texts, each name once, got {pairs}.")
    return {p[0]: p[1] for p in pairs}


def _check(layout: Layout) -> None:
    """Refuse a record that was changed into something that no table has."""
    allowed: dict[str, tuple[Any, ...]] = {"task": TASKS, "bound": BOUNDS}
    allowed["labels"] = (None,) if layout.task == "number" else LABELS
    for name, values in allowed.items():
        if getattr(layout, name) not in values:
            got = getattr(layout, name)
            raise WrongInput(f"{name} of a layout must be one of {values}, got {name}={got!r}.")
    if not set(layout.kinds.values()) <= set(KINDS) or not layout.kinds:
        raise WrongInput(f"kinds of a layout must be among {KINDS}, got {dict(layout.kinds)}.")
    named = [v for v in (layout.subject, layout.id, layout.weight) if v is not None]
    roles = [layout.target, *named, *layout.kinds]
    if not all(isinstance(v, str) for v in roles) or len(set(roles)) != len(roles):
        raise WrongInput(f"every column of a layout must have one meaning, got {roles}.")
    known = {name: layout.kinds.get(name) for name in layout.by_text}
    if set(known.values()) - {"category"} or set(layout.by_text.values()) - {"number", "boolean"}:
        raise WrongInput(f"by_text of a layout must name categories, got {dict(layout.by_text)}.")
