"""What the attacker is given, by name: for the tables and for their pictures."""

EXACT, PUBLIC = "exact", "exact, public"
DEFAULT, CAPPED, NEVER = "default", "exposure {:g}", "never"
MEAN, CLASS_MEAN = "mean", "class mean"
KINDS = (
    EXACT,
    PUBLIC,
    DEFAULT,
    CAPPED.format(10),
    CAPPED.format(1),
    NEVER,
    CLASS_MEAN,
    MEAN,
)
_WORDS = {
    "original": "deleted image",
    EXACT: "exact models",
    PUBLIC: "exact models,\nother rows unknown",
    DEFAULT: "default releases",
    NEVER: "never learned",
    CLASS_MEAN: "mean of its class",
    MEAN: "mean of all others",
}


def words(kind: str) -> str:
    """A kind as pictures and pages name it."""
    return _WORDS.get(kind, f"max_{kind.replace(' ', '=')}")
