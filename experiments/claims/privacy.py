"""Claims about sensitivities, noise, and scores at a given epsilon."""

import numpy as np

from experiments.claims.finding import (
    ACCOUNTANTS,
    EPSILON,
    IN_PART,
    NOTHING,
    ORDERED,
    SUBSTANTIAL,
    TENDENCY,
    Finding,
    both,
    grid,
    loss,
    main_set,
    number,
    settings,
    span,
    spread_of,
)
from experiments.store import Store


def sensitivities_differ(store: Store, study: str) -> Finding:
    table = store.read(f"{study}_sensitivities")
    bounds = table.pivot_table(index="step", columns="row", values="bound")
    between, along = bounds.iloc[-1].max() / bounds.iloc[-1].min(), bounds.max() / bounds.min()
    return Finding(
        "sensitivities",
        "Sensitivity bounds vary substantially across rows and steps: a uniform one would be "
        "conservative.",
        f"factor {number(between)} between rows at the last step, {span(along)} along a row's "
        "trajectory",
        bool(between >= SUBSTANTIAL and along.median() >= SUBSTANTIAL),
        None,
    )


def runs_stay_under_bounds(store: Store, study: str) -> Finding:
    margins, runs = store.read(f"{study}_margins"), settings(store, study)["n_runs"]
    exceeded = int(margins["exceeded"].sum())
    return Finding(
        "sensitivities",
        f"Trajectories of {runs} runs lie under their high-probability bounds.",
        f"{exceeded or 'no'} step of {runs * len(margins)} trajectories is above; the closest is "
        f"at {margins['largest_share'].max():.2%} of its bound",
        exceeded == 0,
        None,
    )


# Privacy and utility


def less_epsilon_costs(store: Store, study: str) -> Finding:
    told, holds = {}, {}
    for name, table in main_set(store, study).items():
        noise, lost = (
            grid(table, "epsilon", "noise"),
            loss(study, grid(table, "epsilon", "expected")),
        )
        falls = noise.diff().iloc[1:] < 0
        falls |= noise.iloc[1:] <= NOTHING  # no noise cannot fall
        holds[name] = bool(falls.all().all() and (lost.diff().iloc[1:] <= 1e-4).all().all())
        told[name] = f"sigma of the hardest row {span(noise.iloc[:, -1])}"
    return Finding(
        "privacy_utility, noise",
        "A stronger guarantee (smaller epsilon) needs more noise and worsens the score.",
        both(told),
        holds["theorem"],
        holds["exact"],
        "Where the chain's own noise suffices, no epsilon needs any more.",
    )


def rows_differ_in_utility(store: Store, study: str) -> Finding:
    told, holds = {}, {}
    for name, table in main_set(store, study).items():
        ratios = spread_of(loss(study, grid(table, "epsilon", "expected")))
        holds[name] = bool(ratios[EPSILON] >= SUBSTANTIAL)
        told[name] = f"{number(ratios[EPSILON])} at epsilon = 1, {number(ratios.iloc[0])} at " \
            f"{ratios.index[0]:g}"  # fmt: skip
    what = "test errors (1 - accuracy)" if study == "mnist" else "test RMSE"
    return Finding(
        "privacy_utility",
        "At a fixed epsilon the score after unlearning differs substantially between rows.",
        f"largest over smallest {what}: {both(told)}",
        holds["theorem"],
        holds["exact"],
        "With so little noise the score hardly changes, whichever row is forgotten. Rows still "
        "differ in the noise.",
    )


def factor_four(store: Store, study: str) -> Finding:
    told, holds = {}, {}
    for name, table in main_set(store, study).items():
        noise = grid(table, "epsilon", "noise")
        ends = spread_of(noise.iloc[:, [0, -1]]).where(noise.iloc[:, -1] >= noise.iloc[:, 0], 1.0)
        about_four = 3 <= ends.max() <= 5
        substantial = bool((ends >= SUBSTANTIAL).all())
        holds[name] = substantial if about_four else IN_PART if substantial else False
        told[name] = f"{span(ends)} (largest over smallest noise {span(spread_of(noise))})"
    return Finding(
        "noise",
        "At a fixed epsilon the noise varies substantially between rows, by up to a factor of four "
        "between the least and the most influential, over the whole range of epsilon.",
        f"sigma_unlearn of the largest gradient over that of the smallest: {both(told)}",
        holds["theorem"],
        holds["exact"],
        "The factor is not about four here, or not at every epsilon.",
    )


def gradient_orders(store: Store, study: str) -> Finding:
    table = store.read(f"{study}_difficulty")
    found = {name: float(table["gradient_norm"].corr(table[name], method="spearman"))
             for name in ACCOUNTANTS}  # fmt: skip
    told = {
        name: "{:.2f} ({:.2f} to {:.2f})".format(value, *interval_of_ranks(value, len(table)))
        for name, value in found.items()
    }
    return Finding(
        "difficulty",
        "The gradient norm after learning orders rows by difficulty.",
        f"rank correlation with sigma_unlearn over {len(table)} rows, with 95% intervals: "
        + both(told),
        in_order(found["theorem"]),
        in_order(found["exact"]),
        "There is at most a tendency, not an order. Difficulty depends on the gradients of all "
        "steps, and the last one is only one of them.",
    )


def in_order(correlation: float) -> bool | str:
    return bool(correlation >= ORDERED) or (IN_PART if correlation >= TENDENCY else False)


def interval_of_ranks(correlation: float, n: int) -> tuple[float, float]:
    """95 %, by Fisher's transform with Bonett and Wright's variance for ranks."""
    middle = np.arctanh(min(max(correlation, -1 + 1e-12), 1 - 1e-12))
    half = 1.96 * np.sqrt((1 + correlation**2 / 2) / (n - 3))
    return float(np.tanh(middle - half)), float(np.tanh(middle + half))
