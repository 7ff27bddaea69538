"""Claims about how many steps are taken: K of unlearning, T of learning."""

from experiments.claims.finding import (
    COMPARABLE,
    IN_PART,
    NOTHING,
    PLATEAU,
    SATURATED,
    Finding,
    both,
    by_accountant,
    grid,
    loss,
    number,
    settings,
    span,
)
from experiments.store import Store


def more_unlearning_helps(store: Store, study: str) -> Finding:
    told, holds = {}, {}
    for name, table in by_accountant(store.read(f"{study}_unlearning_steps")).items():
        lost = loss(study, grid(table, "unlearning_steps", "expected"))
        rising = (lost.diff().iloc[1:] > 1e-4).any()
        holds[name] = True if not rising.any() else False if rising.all() else IN_PART
        told[name] = f"hardest row {number(lost.iloc[0, -1])} to {number(lost.iloc[-1, -1])}"
        if rising.any():
            worst = (lost.iloc[-1] - lost.min())[rising].idxmax()
            told[name] += (
                f"; {rising.sum()} of {len(rising)} rows rise again, row {worst} the most: "
                f"{lost[worst].min():.4f} at K = {lost[worst].idxmin()}, "
                f"{lost[worst].iloc[-1]:.4f} at {lost.index[-1]}"
            )
    return Finding(
        "unlearning_steps",
        "More unlearning steps K improve the score monotonically.",
        f"error, from the smallest K to the largest: {both(told)}",
        holds["theorem"],
        holds["exact"],
        "The noise falls with K, but K more steps are also K more steps of learning, past the best "
        "stopping time.",
    )


def unlearning_saturates(store: Store, study: str) -> Finding:
    usual = settings(store, study)["n_unlearn_steps"]
    told, holds = {}, {}
    for name, table in by_accountant(store.read(f"{study}_unlearning_steps")).items():
        lost = loss(study, grid(table, "unlearning_steps", "expected"))
        gain, above = lost.iloc[0] - lost.min(), lost.loc[usual] / lost.min()
        reached = (lost.iloc[0] - lost.loc[usual]) / gain.where(gain > 1e-3)
        holds[name] = bool(((reached >= PLATEAU) | (above <= SATURATED)).all())
        told[name] = f"error {number(above.min())} to {number(above.max())} times the least"
        reached = reached.dropna()  # rows that have nothing to gain
        if len(reached):
            told[name] += f", {reached.min():.0%} to {reached.max():.0%} of the gain"
    return Finding(
        "unlearning_steps",
        f"Gains saturate: beyond K = {usual} there is little left.",
        f"at K = {usual}: {both(told)}",
        holds["theorem"],
        holds["exact"],
        "sigma_unlearn falls like the square root of 1/K over the whole range of K. The score "
        "follows until the noise is too small to affect it. Hard rows reach that point later.",
    )


def long_training_hurts(store: Store, study: str) -> Finding:
    usual = settings(store, study)["n_steps"]
    told, holds = {}, {}
    for name, table in by_accountant(store.read(f"{study}_learning_steps")).items():
        noise = grid(table, "learning_steps", "noise")
        lost = loss(study, grid(table, "learning_steps", "expected"))
        grows = noise.iloc[-1] / noise.loc[usual].where(noise.loc[usual] > NOTHING)
        fallen = int((grows < 1).sum())  # of the last accountant, the exact one
        hardest = lost.iloc[:, -1]
        holds[name] = bool((grows > 1).all() and hardest.iloc[-1] > COMPARABLE * hardest.min())
        told[name] = (
            f"sigma times {span(grows.fillna(1.0))}, hardest row's best error "
            f"{number(hardest.min())} at T = {hardest.idxmin():,}, last {number(hardest.iloc[-1])}"
        )
    return Finding(
        "learning_steps",
        "Longer training raises the noise and in the end worsens the hardest row's score.",
        f"from T = {usual:,} to {noise.index[-1]:,}: {both(told)}",
        holds["theorem"],
        holds["exact"],
        "The theorem adds up bounds on all past gradients, contracted only by 1 - eta lambda. The "
        "chain itself forgets its past at the rate of its eigenvalues. The exact noise of "
        f"{fallen} of {len(grows)} rows falls.",
    )
