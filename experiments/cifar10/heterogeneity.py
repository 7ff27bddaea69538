"""Tests over several rows: is any of them told apart, and are they told unequally?

A line of scores holds all rows: for unlearned runs those of copies of one learned network, for
retrained runs those of one network for each row. Whole lines are permuted and drawn again, so that
what rows share stays together.

Is any row told? The null is that lines of both kinds follow one law, which implies that no row can
be told. The largest AUC over rows is compared with those of permuted labels. This p-value is exact.
Rows may share more in one kind than in the other while none can be told. The permuted AUCs then
still have the right variances and covariances, because both kinds have equally many runs.

Do rows differ? The null is that all rows have one AUC, whatever it is. The statistic is the largest
distance of a row's AUC from the mean over rows. Lines are drawn again (bootstrap), and what is
found is compared with the same distance of A*_i - A_i, the errors of the AUCs that are drawn. This
p-value is approximate.

There is an interval as well: the AUC of the row with the largest gradient minus that of the row
with the smallest, two rows that were named before any audit.
"""

from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

N_PERMUTATIONS = 1999
N_DRAWS = 500


class Found(NamedTuple):
    """p-values of both statistics, and the interval of a difference named in advance."""

    runs: int
    largest_auc: float
    p_any: float
    largest_deviation: float
    p_differ: float
    contrast: float
    contrast_low: float
    contrast_high: float


def compare_rows(first: np.ndarray, second: np.ndarray, seed: int = 0) -> Found:
    """Scores (runs x rows) of both kinds, rows by increasing gradient norm."""
    rng = np.random.default_rng(seed)
    aucs = areas(first, second)
    permuted = permuted_areas(first, second, rng)
    contrasts = np.array([contrast(first, second, rng) for _ in range(N_DRAWS)])
    low, high = np.quantile(contrasts, [0.025, 0.975])
    return Found(
        runs=len(first),
        largest_auc=aucs.max(),
        p_any=p_value(aucs.max(), permuted.max(1)),
        largest_deviation=deviation(aucs),
        p_differ=p_of_difference(first, second, rng),
        contrast=aucs[-1] - aucs[0],
        contrast_low=low,
        contrast_high=high,
    )


def p_of_row(first: np.ndarray, second: np.ndarray, seed: int = 0) -> float:
    """One-sided, for one row: exact if its runs of both kinds follow one law."""
    one, other = first[:, None], second[:, None]
    permuted = permuted_areas(one, other, np.random.default_rng(seed))
    return p_value(areas(one, other)[0], permuted[:, 0])


def p_of_difference(first: np.ndarray, second: np.ndarray, rng: np.random.Generator) -> float:
    """Of the null that all rows have one AUC: by the errors of AUCs that are drawn again."""
    aucs = areas(first, second)
    errors = drawn_areas(first, second, rng) - aucs
    return p_value(deviation(aucs), deviation(errors))


def areas(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The AUC of every row: Mann and Whitney's statistic, ties count half."""
    ranks = rankdata(np.concatenate([first, second]), axis=0)
    return from_ranks(ranks[: len(first)].sum(0), len(first), len(second))


def permuted_areas(first: np.ndarray, second: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """AUCs (permutations x rows); ranks of all runs stay, only their labels change."""
    ranks = rankdata(np.concatenate([first, second]), axis=0)
    sums = np.array(
        [ranks[rng.permutation(len(ranks))[: len(first)]].sum(0) for _ in range(N_PERMUTATIONS)]
    )
    return from_ranks(sums, len(first), len(second))


def drawn_areas(first: np.ndarray, second: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """AUCs (draws x rows) of whole lines that are drawn again, each kind by itself."""
    return np.array(
        [
            areas(*(kind[rng.integers(len(kind), size=len(kind))] for kind in (first, second)))
            for _ in range(N_DRAWS)
        ]
    )


def from_ranks(sums: np.ndarray, n: int, m: int) -> np.ndarray:
    return (sums - n * (n + 1) / 2) / (n * m)


def deviation(aucs: np.ndarray) -> np.ndarray:
    return np.abs(aucs - aucs.mean(-1, keepdims=True)).max(-1)


def p_value(found: float, under_null: np.ndarray) -> float:
    return (1 + np.sum(under_null >= found - 1e-12)) / (1 + len(under_null))


def contrast(first: np.ndarray, second: np.ndarray, rng: np.random.Generator) -> float:
    """Last minus first row, from runs that are drawn again: unlearned runs as whole lines."""
    ends = [0, -1]
    unlearned = first[rng.integers(len(first), size=len(first))][:, ends]
    retrained = [second[rng.integers(len(second), size=len(second)), end] for end in ends]
    smallest, largest = areas(unlearned, np.stack(retrained, axis=1))
    return largest - smallest
