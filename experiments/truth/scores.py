"""Verdicts: what each method claims, what is true, and whether the claim stands.

| verdict | when |
| --- | --- |
| REFUTED | the lower end of the truth is above the claim |
| true, true but loose | the upper end is not; loose is a claim of more than 1.1 times the truth |
| not refuted | the claim is between both ends, for example where only runs are known |
| outside its assumptions, ... | the problem does not meet what the method's theorem asks for |
"""

import math
from collections.abc import Iterable
from itertools import product

import pandas as pd

from experiments.truth.claim import Adapter, Claim, NotCovered
from experiments.truth.oracle import Interval, true_epsilon
from experiments.truth.problems import Problem

TABLE = "truth_scores"
REFUTED, TRUE, LOOSE, OPEN = "REFUTED", "true", "true but loose", "not refuted"
OUTSIDE_REFUTED = "outside its assumptions, REFUTED"
OUTSIDE_STANDS = "outside its assumptions, not refuted"
_LOOSE = 1.1  # the claim over the truth
_ACCURACY = 2e-3  # a claim this near the upper end of the truth is true


def score(
    adapters: Iterable[Adapter],
    problems: Iterable[Problem],
    epsilons: Iterable[float] = (1.0,),
) -> pd.DataFrame:
    """One line for each adapter, problem and epsilon wished for. What is not covered is left out.

    Problems that differ only in what an adapter ignores count once: an adapter may have a tuple
    `ignores` of "n_steps", "n_unlearn_steps", "data" or "wish".
    """
    lines: list[dict[str, object]] = []
    chosen, wishes = tuple(problems), tuple(epsilons)
    for adapter in adapters:
        seen = set()
        for problem, wish in product(chosen, wishes):
            key = inputs(problem, wish, getattr(adapter, "ignores", ()))
            if key in seen:
                continue
            seen.add(key)
            try:
                claim = adapter.run(problem, wish)
            except NotCovered:
                continue
            lines.append(line(adapter, problem, wish, claim))
    return pd.DataFrame(lines)


def inputs(problem: Problem, wish: float, ignored: tuple[str, ...]) -> tuple[object, ...]:
    """What an answer can depend on."""
    data = (problem.X.tobytes(), problem.y.tobytes(), problem.row, problem.alpha, problem.noise)
    everything = {
        "wish": wish,
        "data": data,
        "loss": problem.loss,
        "n_steps": problem.n_steps,
        "n_unlearn_steps": problem.n_unlearn_steps,
        "delta": problem.delta,
    }
    return tuple(value for name, value in everything.items() if name not in ignored)


def line(adapter: Adapter, problem: Problem, wish: float, claim: Claim) -> dict[str, object]:
    """A line of the table."""
    truth = true_epsilon(claim.unlearned, claim.retrained, claim.delta)
    judged = truth.of(claim.direction)
    verdict, factor = judge(claim, judged)
    return {
        "adapter": adapter.name,
        "cite": adapter.cite,
        "problem": problem.name,
        "setting": problem.setting,
        "wish": wish,
        "delta": claim.delta,
        "direction": claim.direction,
        "claimed": claim.epsilon,
        "true_forward": truth.forward.value,
        "true_backward": truth.backward.value,
        "lower": judged.lower,
        "upper": judged.upper,
        "verdict": verdict,
        "factor": factor,
        "outside": "; ".join(claim.unmet),
    }


def judge(claim: Claim, truth: Interval) -> tuple[str, float]:
    """The verdict, and by how much: true over claimed where refuted, claimed over true elsewhere.

    A claim falls only to the lower end of the truth, and is called true only above its upper end.
    Between them it is not refuted, and a claim that stands has a factor of at least one.
    """
    outside = bool(claim.unmet)
    if truth.lower > claim.epsilon:
        factor = truth.lower / claim.epsilon if claim.epsilon > 0 else math.inf
        return OUTSIDE_REFUTED if outside else REFUTED, factor
    factor = 1.0 if claim.epsilon == 0 else math.inf
    if truth.value > 0:
        factor = max(claim.epsilon / truth.value, 1.0)
    if outside:
        return OUTSIDE_STANDS, factor
    if truth.upper * (1 - _ACCURACY) > claim.epsilon:
        return OPEN, factor
    return LOOSE if factor > _LOOSE else TRUE, factor
