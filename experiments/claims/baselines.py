"""Claims about DP-GD and the Newton step."""

import numpy as np
import pandas as pd

from experiments.claims.finding import (
    COMPARABLE,
    EPSILON,
    IN_PART,
    NOTHING,
    SUBSTANTIAL,
    VISIBLE,
    Finding,
    both,
    by_accountant,
    by_noise,
    grid,
    loss,
    main_set,
    number,
    references,
    span,
)
from experiments.store import Store

ACCOUNTINGS = {"theorem": "renyi", "exact": "gdp"}


def dp_gd_errors(store: Store, study: str, name: str) -> pd.DataFrame:
    """By epsilon: DP-GD as in the paper, tuned, and the best of both and a constant.

    One run in each cell of the grid chose what is tuned, so that the paper's setting may be better.
    """
    errors = {}
    for kind in ("dp_gd", "dp_gd_tuned"):
        table = store.read(f"{study}_{kind}")
        curve = table[table["accounting"] == ACCOUNTINGS[name]].set_index("epsilon")[["mean"]]
        errors[kind] = loss(study, curve)["mean"]
    found = pd.DataFrame(errors)
    return found.assign(best=found.min(axis=1).clip(upper=references(store, study)["constant"]))


def against_dp_gd(store: Store, study: str, name: str) -> pd.DataFrame:
    """DP-GD's best error over pilu's, by epsilon (down) and row (across)."""
    ours = loss(study, grid(main_set(store, study)[name], "epsilon", "mean"))
    return (1 / ours).mul(dp_gd_errors(store, study, name)["best"], axis=0)


def choices_at_the_edge(store: Store, study: str) -> tuple[int, int]:
    """How many choices of the tuning lie on the edge of its grid, of how many."""
    tried, chosen = (store.read(f"{study}_{name}") for name in ("dp_gd_grid", "dp_gd_tuned"))
    at_edge = np.zeros(len(chosen), dtype=bool)
    for column in ("clipping", "step_factor"):
        for end in (tried[column].min(), tried[column].max()):
            at_edge |= np.isclose(chosen[column], end)
    return int(at_edge.sum()), len(chosen)


def better_than_dp_gd(store: Store, study: str) -> Finding:
    told, holds = {}, {}
    for name in ACCOUNTINGS:
        ratios = against_dp_gd(store, study, name)
        rows = by_noise(main_set(store, study)[name])
        easiest, hardest = ratios[rows[0]], ratios[rows[-1]]
        far_ahead, behind = easiest >= SUBSTANTIAL, hardest < 1 / COMPARABLE
        easy_gains = bool(far_ahead.any() and (easiest >= 1 / COMPARABLE).all())
        holds[name] = easy_gains if not behind.any() else IN_PART if easy_gains else False
        told[name] = (
            f"{span(easiest)} times pilu's for the easiest row ({rows[0]}; 2 or more at "
            f"{epsilons(far_ahead)}, behind at {epsilons(easiest < 1 / COMPARABLE)}), "
            f"{span(hardest)} for the hardest ({rows[-1]}; behind at {epsilons(behind)})"
        )
    return Finding(
        "dp_gd",
        "Easy rows keep substantially more utility than under DP-GD at the same epsilon, hard "
        "rows remain comparable, or better.",
        f"error of DP-GD at its best: {both(told)}",
        holds["theorem"],
        holds["exact"],
        "Where the noise of a row is large, DP-GD or even a constant is ahead. DP-GD starts at "
        "zero and has to learn the mean of the targets through clipped gradients. By Renyi "
        "accounting it is no better than a constant up to epsilon = 1.",
    )


def epsilons(where: pd.Series) -> str:
    """For which epsilon something is so."""
    some = [f"{value:g}" for value in where.index[where]]
    return f"epsilon = {', '.join(some)}" if some else "no epsilon"


def opposite_behaviour(store: Store, study: str) -> Finding:
    table = store.read(f"{study}_newton")
    newton = table[table["method"] == "newton"].set_index("learning_steps")["epsilon"]
    falls = bool((newton.diff().iloc[1:] < 0).all())
    told, holds = {}, {}
    for name, some in by_accountant(table, "method").items():
        curve = grid(some, "learning_steps", "epsilon")
        rises, overall = curve.iloc[-1] / curve.min(), curve.iloc[-1] / curve.iloc[0]
        always = bool((overall >= SUBSTANTIAL).all())
        in_the_end = bool((rises >= SUBSTANTIAL).all())
        holds[name] = (always or (IN_PART if in_the_end else False)) if falls else False
        told[name] = (
            f"last over first {span(overall)}, last over least {span(rises)}, least at "
            f"T = {span(curve.idxmin())}"
        )
    return Finding(
        "newton",
        "With T the Newton step's epsilon falls and pilu's rises.",
        f"Newton {number(newton.iloc[0])} to {number(newton.iloc[-1])}; pilu, {both(told)}",
        holds["theorem"],
        holds["exact"],
        "By Theorem 1 the epsilon of some rows falls first. The exact epsilon mostly falls with T "
        "too.",
    )


def competitive_at_small_horizons(store: Store, study: str) -> Finding:
    table = store.read(f"{study}_newton")
    newton = table[table["method"] == "newton"].set_index("learning_steps")["epsilon"]
    told, holds = {}, {}
    for name, some in by_accountant(table, "method").items():
        hardest = grid(some, "learning_steps", "epsilon").max(axis=1)
        crossed = newton.index[newton < hardest]
        ahead = bool(newton.iloc[0] > hardest.iloc[0])
        holds[name] = ahead if len(crossed) or not ahead else IN_PART
        told[name] = (
            f"Newton is below the hardest row from T = {crossed[0]:,} on" if len(crossed)
            else f"Newton is above every row up to T = {newton.index[-1]:,}"
        )  # fmt: skip
    return Finding(
        "newton",
        "pilu is ahead of the Newton step at small and realistic horizons; Newton catches up only "
        "at large ones.",
        both(told),
        holds["theorem"],
        holds["exact"],
        "pilu is ahead, but within the paper's horizons Newton does not catch up.",
    )


def residual_remains(store: Store, study: str) -> Finding:
    table = store.read(f"{study}_residuals").set_index("learning_steps")
    plain, noisy = table["no_perturbation"], table["perturbed"]
    return Finding(
        "newton (table)",
        "The residual after the Newton step falls with T but does not vanish, with or without "
        "perturbation: noise is needed.",
        f"{number(plain.iloc[0])} at T = {table.index[0]:,}, {number(plain.iloc[-1])} at "
        f"T = {table.index[-1]:,}; perturbed {number(noisy.iloc[0])} and {number(noisy.iloc[-1])}",
        bool((plain.diff().iloc[1:] < 0).all() and plain.iloc[-1] > 0.1),
        None,
    )


def better_than_dp_gd_at_every_row(store: Store, study: str) -> Finding:
    told, holds = {}, {}
    for name in ACCOUNTINGS:
        ratios = against_dp_gd(store, study, name)
        at_one, ahead = ratios.loc[EPSILON], int((ratios > 1).to_numpy().sum())
        most = ratios.mean().idxmax()
        all_ahead = ahead == ratios.size
        holds[name] = (
            bool(most == ratios.columns[-1])
            if all_ahead
            else IN_PART
            if (at_one > 1).mean() > 0.5
            else False
        )
        told[name] = (
            f"ahead at {(at_one > 1).sum()} of {len(at_one)} rows at epsilon = 1, at {ahead} of "
            f"{ratios.size} rows and epsilons in all; DP-GD's error is {span(at_one)} times pilu's "
            f"at epsilon = 1, {number(at_one.iloc[-1])} for the hardest row"
        )
    rows = store.read(f"{study}_rows")
    hardest = rows[rows["set"] == rows["set"].iloc[0]].iloc[-1]
    return Finding(
        "dp_gd",
        "pilu's trade-off is better than DP-GD's, with the largest gains on the most influential "
        "rows.",
        f"against DP-GD at its best: {both(told)}",
        holds["theorem"],
        holds["exact"],
        "The gain is largest where the least noise is needed: on the easy rows. The hardest row "
        f"(|x| = {hardest['feature_norm']:.0f}, gradient {hardest['gradient_norm']:.0f}) needs so "
        "much noise that DP-GD is ahead.",
    )


def one_level_is_conservative(store: Store, study: str) -> Finding:
    uniform = store.read(f"{study}_uniform")
    before, constant = references(store, study)[["before", "constant"]]
    told, holds = {}, {}
    for name, table in main_set(store, study).items():
        level = uniform[uniform["accountant"] == name].set_index("epsilon")
        noise = grid(table, "epsilon", "noise").loc[EPSILON]
        error = loss(study, grid(table, "epsilon", "expected")).loc[EPSILON]
        common = float(loss(study, level[["expected"]])["expected"][EPSILON])
        median = len(noise) // 2
        ratio = (
            level["noise"][EPSILON] / noise.iloc[median] if noise.iloc[median] > NOTHING else np.inf
        )
        lost, own = ((e - before) / (constant - before) for e in (common, error.iloc[median]))
        holds[name] = bool(lost >= VISIBLE and lost >= SUBSTANTIAL * own)
        told[name] = (
            f"{number(ratio)} times the median row's noise; error {number(common)} instead of "
            f"{number(error.iloc[median])}, which is {lost:.0%} of all skill instead of {own:.1%}"
        )
    return Finding(
        "uniform",
        "Uniform calibration for the worst case can severely degrade performance, unlike "
        "calibration for the row.",
        f"the hardest row's noise for everybody, at epsilon = 1: {both(told)}",
        holds["theorem"],
        holds["exact"],
        "One level costs more noise too, but little of the skill.",
    )


def formula_is_exact_at_the_minimiser_only(store: Store, study: str) -> Finding:
    table = store.read(f"{study}_leave_one_out")
    at_minimiser = (table["minimiser_error"] / table["minimiser_without"]).max()
    after_steps = table["steps_error"] / table["steps_without"]
    exact, visible = at_minimiser < 1e-6, bool((after_steps >= VISIBLE).all())
    unit = " m" if study == "depth" else ""
    return Finding(
        "leave_one_out",
        "The closed-form leave-one-out formula holds at the minimiser and not after T steps.",
        f"residual of a row without itself: off by at most {at_minimiser:.1g} (relative) at the "
        f"minimiser; after T steps by {span(table['steps_error'])}{unit}, which is "
        f"{after_steps.min():.2%} to {after_steps.max():.0%} of the residual, under "
        f"{VISIBLE:.0%} for {(after_steps < VISIBLE).sum()} of {len(table)} rows",
        (visible or (IN_PART if after_steps.max() > 1e-3 else False)) if exact else False,
        None,
        "After so many steps the model is close enough to the minimiser for these rows. A large "
        "share of a residual of millimetres is next to nothing.",
    )
