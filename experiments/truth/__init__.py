"""Claims of unlearning certificates, scored on small problems whose laws are known.

`problems` has the problems, `laws` what a method's output may be distributed as, `oracle` the true
epsilon of two laws, `adapters` one module a method, `scores` the verdicts. Nothing in `oracle`
comes from pilu, so pilu's own certificates are scored as those of a stranger.
"""

from experiments.truth.claim import Adapter, Claim, NotCovered
from experiments.truth.laws import Bins, Draws, Gaussian
from experiments.truth.oracle import Truth, true_epsilon
from experiments.truth.problems import Problem
from experiments.truth.scores import score

__all__ = [
    "Adapter",
    "Bins",
    "Claim",
    "Draws",
    "Gaussian",
    "NotCovered",
    "Problem",
    "Truth",
    "score",
    "true_epsilon",
]
