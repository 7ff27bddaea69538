"""Claims about mini-batches."""

import numpy as np

from experiments.claims.finding import (
    COMPARABLE,
    EPSILON,
    IN_PART,
    SUBSTANTIAL,
    Finding,
    both,
    by_accountant,
    grid,
    main_set,
    number,
    settings,
    span,
)
from experiments.store import Store


def larger_batches_are_better(store: Store, study: str) -> Finding:
    table = store.read(f"{study}_minibatches")
    steps = table.drop_duplicates("batch_size").set_index("batch_size")["learning_steps"]
    runs = settings(store, study)["n_runs"]
    told, holds = {}, {}
    for name, some in by_accountant(table).items():
        at_one = some[some["epsilon"] == EPSILON]
        errors = grid(at_one, "batch_size", "mean").iloc[:, -1]
        drops = -errors.diff().iloc[1:]
        variance = grid(at_one, "batch_size", "sd").iloc[:, -1] ** 2 / runs
        clear = drops > 2 * np.sqrt(variance.iloc[1:] + variance.iloc[:-1].to_numpy())
        fewer = bool((steps.diff().iloc[1:] < 0).all())
        holds[name] = fewer if clear.all() else IN_PART if fewer and clear.any() else False
        told[name] = ", ".join(number(value) for value in errors)
    sizes = ", ".join(str(b) for b in steps.index)
    return Finding(
        "minibatches",
        "At one training error larger batches need fewer steps and have better curves.",
        f"b = {sizes}: T = {', '.join(f'{T:,}' for T in steps)}; hardest row's error at "
        f"epsilon = 1, {both(told)}",
        holds["theorem"],
        holds["exact"],
        "The exact accountant needs so little noise for any batch size that the runs cannot "
        "distinguish neighbouring curves.",
    )


def small_batches_are_cheaper(store: Store, study: str) -> Finding:
    table = store.read(f"{study}_cost").set_index("batch_size")["total_cost"]
    small, full = table.iloc[:-1], table.iloc[-1]
    return Finding(
        "minibatches (table)",
        "Examples processed grow with the batch size; every mini-batch is much cheaper than the "
        "full batch.",
        f"{', '.join(f'{value / 1e6:.2f}M' for value in small)} against {full / 1e6:.2f}M",
        bool((small.diff().iloc[1:] > 0).all() and full / small.max() >= SUBSTANTIAL),
        None,
    )


def as_good_as_full_batch(store: Store, study: str) -> Finding:
    table, b = store.read(f"{study}_minibatches"), 512
    n = store.provenance(f"{study}_cost")["data"]["rows"]["train"]
    K = settings(store, study)["n_unlearn_steps"]
    told, holds = {}, {}
    if b not in set(table["batch_size"]):
        b = int(table["batch_size"].iloc[0])
    full = main_set(store, study)
    for name, some in by_accountant(table[table["batch_size"] == b]).items():
        there = grid(some, "epsilon", "mean").loc[EPSILON]
        ratios = there / grid(full[name], "epsilon", "mean").loc[EPSILON]
        holds[name] = bool((ratios <= COMPARABLE).all())
        told[name] = span(ratios)
    return Finding(
        "minibatches",
        f"b = {b} has a similar trade-off to the full batch with little more than a pass over the "
        "data.",
        f"{b * K / n:.2f} passes; error at epsilon = 1 over the full batch's, {both(told)}",
        holds["theorem"],
        holds["exact"],
        "The theorem adds up bounds over many more steps than the full batch takes.",
    )


def less_than_an_epoch(store: Store, study: str) -> Finding:
    """[PILU, sec. 2.2]: guarantees are not vacuous though unlearning takes less than an epoch."""
    table = store.read(f"{study}_minibatches")
    n = store.provenance(f"{study}_cost")["data"]["rows"]["train"]
    K = settings(store, study)["n_unlearn_steps"]
    b = int(table["batch_size"].min())
    constant = store.read(f"{study}_references").set_index("name")["value"]["constant"]
    told, holds = {}, {}
    for name, some in by_accountant(table[table["batch_size"] == b]).items():
        errors = grid(some, "epsilon", "mean").loc[EPSILON]
        useful = errors < constant
        holds[name] = True if useful.all() else IN_PART if useful.any() else False
        told[name] = f"{useful.sum()} of {len(useful)} rows"
    return Finding(
        "minibatches (epochs)",
        "Guarantees are not vacuous even when unlearning takes less than one epoch.",
        f"b = {b}: {b * K / n:.2f} epochs; error at epsilon = 1 below that of predicting the mean "
        f"({number(constant)}): {both(told)}",
        holds["theorem"] if b * K < n else False,
        holds["exact"] if b * K < n else False,
        "The guarantee holds for every row, but with this noise hard rows leave a model that is no "
        "better than a constant.",
    )
