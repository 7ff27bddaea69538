"""Claims about CIFAR-10, beyond the linear case."""

import pandas as pd

from experiments.cifar10.audits import is_capped
from experiments.cifar10.page import rows_differ
from experiments.cifar10.render import PAPER, TITLES, picked
from experiments.cifar10.tables import LETTERS
from experiments.claims.finding import (
    IN_PART,
    OPEN,
    SUBSTANTIAL,
    Claim,
    Finding,
    number,
    span,
)
from experiments.claims.privacy import in_order
from experiments.store import Store

LEVEL = 0.05
SMALL_ERROR = 0.01  # mean squared, of a Gaussian curve [PILU, app. CIFAR-10]


def audits_of(store: Store, score: str) -> dict[str, pd.DataFrame]:
    return {name: picked(store.read(f"cifar10_{name}_audits"), score) for name in TITLES}


def of_both(verdicts: list[bool | str]) -> bool | str:
    """One verdict for two studies: in part where they disagree, open where one is."""
    if OPEN in verdicts:
        return OPEN
    return verdicts[0] if len(set(verdicts)) == 1 else IN_PART


def same_noise_other_privacy(store: Store, study: str) -> Finding:
    told, verdicts = [], []
    for name, found in audits_of(store, "mlp").items():
        tests = picked(store.read(f"cifar10_{name}_tests"), "loss").iloc[0]
        ends = found["epsilon_hat"]
        over = "over " if is_capped(found.loc[ends.idxmax()]) else ""
        told.append(
            f"{LETTERS[name]} {ends.min():.2f} to {over}{ends.max():.2f}, AUC "
            f"{span(found['auc'])}; that rows differ has p = {tests['p_differ']:.4f} by the own "
            "loss"
        )
        verdicts.append(substantial(found) if rows_differ(store, name, LEVEL) else OPEN)
    return Finding(
        "Table 1",
        "With the same noise for all rows the empirical epsilon differs substantially (3.05 to "
        "7.10).",
        "; ".join(told),
        of_both(verdicts),
        reason="A study whose test does not tell rows apart decides nothing. In "
        "part: the studies disagree, or estimates are so far apart and their intervals are not.",
    )


def substantial(found: pd.DataFrame) -> bool | str:
    """Whether the extreme rows differ so much, also by the nearer ends of their intervals.

    The extremes of several estimates are farther apart than the rows are.
    """
    ends = found["epsilon_hat"]
    least, most = found.loc[ends.idxmin()], found.loc[ends.idxmax()]
    if most["epsilon_hat"] < SUBSTANTIAL * least["epsilon_hat"]:
        return False
    return bool(most["epsilon_low"] >= SUBSTANTIAL * least["epsilon_high"]) or IN_PART


def distinguishers_agree(store: Store, study: str) -> Finding:
    told, verdicts = [], []
    for name in TITLES:
        audits = store.read(f"cifar10_{name}_audits")
        linear, mlp = (picked(audits, score).set_index("row") for score in ("linear", "mlp"))
        above = above_chance(mlp) & above_chance(linear)
        relation = linear["auc"].corr(mlp["auc"], method="spearman")
        told.append(
            f"{LETTERS[name]} rank correlation of AUC {relation:.2f}; both detect {above.sum()} of "
            f"{len(above)} rows"
        )
        verdicts.append(in_order(relation) if above.sum() > 1 else OPEN)
    linear, mlp = map(pd.Series, zip(*PAPER.values(), strict=True))
    told.append(f"the paper's Table 3, epsilon-hat: {linear.corr(mlp, method='spearman'):.2f}")
    return Finding(
        "Table 3",
        "Both distinguishers lead to similar heterogeneity.",
        "; ".join(told),
        of_both(verdicts),
        reason="Ranks of rows at chance are accidents, so one detected row decides nothing. In "
        "part: the ranks agree as a tendency, or in one study.",
    )


def above_chance(found: pd.DataFrame) -> pd.Series:
    """By permutation, on runs that trained nothing, corrected for the number of rows."""
    return found["p"] * len(found) < LEVEL


def gdp_fits(store: Store, study: str) -> Finding:
    told, verdicts = [], []
    for name in TITLES:
        audits = store.read(f"cifar10_{name}_audits")
        errors = pd.concat([picked(audits, score)["fit_error"] for score in ("linear", "mlp")])
        told.append(
            f"{LETTERS[name]} {number(errors.min())} to {number(errors.max())}, median "
            f"{number(errors.median())}"
        )
        most, middle = errors.max() <= SMALL_ERROR, errors.median() <= SMALL_ERROR
        verdicts.append(True if most else IN_PART if middle else False)
    return Finding(
        "Fig. 9",
        "A Gaussian trade-off curve fits: mean squared error between 0.001 and 0.01.",
        "; ".join(told) + ". It says little of the tail that sets epsilon: it is a mean over alpha "
        "from 0.005 to 0.995, and curves of AUC = 1 fit trivially",
        of_both(verdicts),
        reason="A curve above the diagonal by chance is where no Gaussian curve can be.",
    )


CIFAR10: tuple[Claim, ...] = (same_noise_other_privacy, distinguishers_agree, gdp_fits)
