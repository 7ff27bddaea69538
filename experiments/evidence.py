"""The page on pilu's own claims, written from the stored tables of two studies."""

from experiments.certificates import page as certificates
from experiments.certificates.render import PICTURES as OF_CERTIFICATES
from experiments.methods import page as methods
from experiments.methods.render import PICTURES as OF_METHODS
from experiments.store import Store

PICTURES = OF_CERTIFICATES + OF_METHODS
INTRODUCTION = """\
# Do pilu's own claims hold on real data?

[results.md](results.md) tests the paper. This page tests what pilu adds to it, on the same data:

| question | section |
| --- | --- |
| What does it cost to forget, by each method? | [Six methods](#six-methods-side-by-side) |
| What did a release tell about each person? | [Exposure](#exposure-of-everybody) |
| Can a deleted image be found again? | [Deleted images](#deleted-images-found-again) |
| Are Langevin certificates true, and how loose? | [Certificates](#certificates-on-real-data) |

`make figures` writes this page from the tables in `experiments/results/`. Numbers and verdicts are
computed, reasons are written by hand. [truth.md](truth.md) scores the certificates of pilu and of
others on small problems whose laws are known.
"""


def page(store: Store) -> str:
    return "\n".join([INTRODUCTION, methods.section(store), certificates.section(store)])
