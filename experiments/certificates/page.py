"""The section of this study: numbers and verdicts from its tables, words by hand."""

from experiments.certificates.words_audits import audits
from experiments.certificates.words_bounds import concentration
from experiments.certificates.words_requests import groups, sequences
from experiments.store import Store

OPENING = """## Certificates on real data

What pilu itself claims is measured here, by code that does not share the accountants' formulas
where that is possible. Tables are `experiments/results/certificates_*.csv`."""


def section(store: Store) -> str:
    """All four studies; a verdict is a sentence in bold, and follows from the tables."""
    parts = [OPENING, audits(store), concentration(store), groups(store), sequences(store)]
    return "\n\n".join(part.strip() for part in parts) + "\n"
