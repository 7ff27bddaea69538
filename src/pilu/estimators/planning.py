"""Plans: the least epsilon for a tolerated loss, and the number of steps to take."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from pilu._checks import check_steps, complaint
from pilu.certify.accountant import Accountant, Target
from pilu.certify.issue import set_target
from pilu.chains.predictions import Prospect
from pilu.chains.problem import Law
from pilu.data.rows import Request
from pilu.estimators.fitted import Fitted
from pilu.estimators.utility import Appraiser, Validation

Rows = NDArray[np.intp]

_STEPS = (1, 2, 5, 10, 20, 40, 80, 160, 320)
_GOOD_ENOUGH = 1.05  # epsilon, relative to the least, that is accepted for fewer steps
_ENOUGH = 1e-3  # no noise is added for a smaller epsilon: delta dominates
_STEP_DOWN = 1.5  # factor between noise levels in the search for a tolerated accuracy


class Option(NamedTuple):
    """One line of a plan: K, the tolerated noise, its epsilon and its predicted metric."""

    n_unlearn_steps: int
    noise: float
    epsilon: float  # infinite if the noise certifies nothing
    after: float


@dataclass(frozen=True)
class Plan:
    """How to forget a request for a tolerated loss.

    Attributes
    ----------
    rows : tuple of int
        The request.
    metric : {"rmse", "accuracy"}
        As in `Utility`.
    tolerated_loss : float
    epsilon, delta : float
        What `noise` certifies: pass them to `unlearn` with `n_unlearn_steps`.
    noise, n_unlearn_steps : float, int
        The suggestion: the fewest steps whose epsilon is within 5% of the least.
    before, after, redraw : float
        Predicted metric of the current model, after the plan, and after a redraw.
    accountant : dict
        Name and options of the accountant.
    table : tuple of Option
        Every K with a tolerated loss, with its noise, epsilon and metric.
    """

    rows: tuple[int, ...]
    metric: str
    tolerated_loss: float
    epsilon: float
    delta: float
    noise: float
    n_unlearn_steps: int
    before: float
    after: float
    redraw: float
    accountant: dict[str, Any]
    table: tuple[Option, ...] = field(repr=False)


def make_plan(
    fitted: Fitted,
    rows: Rows,
    validation: Validation,
    tolerated_loss: float,
    delta: float,
    accountant: Accountant,
    steps: tuple[int, ...],
) -> Plan:
    """The plan with the least epsilon whose predicted loss is tolerated."""
    request, law = Request.read(fitted.source, rows), fitted.law
    appraiser = Appraiser(validation, law, steps[-1])
    prospects, redraw = appraiser.prospects(request, steps)
    before, sign = appraiser.before, -1.0 if validation.is_classifier else 1.0
    if not any(p.variance_per_noise.any() for p in prospects):
        raise complaint("validation", "an X with a nonzero row", "zeros")
    targets = [set_target(law, _ENOUGH, delta, K) for K in steps]
    least = min(target.floor for target in targets)
    noises = [_largest_noise(p, validation, before, tolerated_loss, law, least) for p in prospects]
    if all(noise is None for noise in noises):
        without_noise = min(sign * (validation.score(p.at(0.0)) - before) for p in prospects)
        raise complaint(
            "tolerated_loss",
            f"at least {without_noise:.6g}, the loss without any noise",
            tolerated_loss,
            f"A redraw would change the {validation.metric} from {before:.6g} to {redraw:.6g}.",
        )
    table = []
    for target, noise, prospect in zip(targets, noises, prospects, strict=True):
        if noise is not None:
            epsilon, noise = _epsilon_and_noise(accountant, law, request, noise, target)
            after = validation.score(prospect.at(noise))
            table.append(Option(target.n_unlearn_steps, noise, epsilon, after))
    best = _suggested(table, tolerated_loss)
    return Plan(
        rows=tuple(int(r) for r in rows),
        metric=validation.metric,
        tolerated_loss=tolerated_loss,
        epsilon=best.epsilon,
        delta=delta,
        noise=best.noise,
        n_unlearn_steps=best.n_unlearn_steps,
        before=before,
        after=best.after,
        redraw=redraw,
        accountant=accountant.describe(),
        table=tuple(table),
    )


def read_steps(given: int | Iterable[int] | None) -> tuple[int, ...]:
    """The values of K to try, sorted; by default from 1 to 320."""
    if given is None:
        return _STEPS
    listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    if not listed:
        raise complaint("n_unlearn_steps", "at least one integer >= 1", given)
    return tuple(sorted({check_steps("n_unlearn_steps", k) for k in listed}))


def _largest_noise(
    prospect: Prospect,
    validation: Validation,
    before: float,
    loss: float,
    law: Law,
    floor: float,
) -> float | None:
    """The largest noise with at most this loss; None if even zero noise loses more."""
    if not validation.is_classifier:
        # The mean squared error is linear in the squared noise.
        room = (before + loss) ** 2 - validation.score(prospect.at(0.0)) ** 2
        if room < 0:
            return None
        return math.sqrt(room / float(np.mean(prospect.variance_per_noise)))

    # Accuracy is not monotone: noise corrects some wrong predictions. So search from above.
    def margin(noise: float) -> float:
        return validation.score(prospect.at(noise)) - (before - loss)

    gap = float(np.max(np.ptp(prospect.mean, axis=1)))
    unit = math.sqrt(float(np.mean(prospect.variance_per_noise)))
    high = max(100 * gap / unit, law.schedule.segments[0].noise)
    most = loss - margin(1e6 * high)
    if loss >= most:
        raise complaint(
            "tolerated_loss", f"less than {most:.6g}, the loss for infinite noise", loss
        )
    while margin(high) >= 0:
        high *= _STEP_DOWN
    low = high / _STEP_DOWN
    while margin(low) < 0:
        if low < floor:
            return 0.0 if margin(0.0) >= 0 else None
        high, low = low, low / _STEP_DOWN
    # brentq may stop on either side of the root; slightly less noise is on the tolerated side.
    root = float(brentq(margin, low, high, xtol=1e-13 * high, rtol=1e-12))
    return root if margin(root) >= 0 else max(low, root * (1 - 1e-11))


def _epsilon_and_noise(
    accountant: Accountant, law: Law, request: Request, noise: float, target: Target
) -> tuple[float, float]:
    """What a tolerated noise certifies, and the noise itself or less of it."""
    if 0.0 < noise < target.floor:
        return math.inf, noise  # the rounding of the parameters would hide it
    try:
        found = accountant.spend(law, request, noise, target._replace(epsilon=1.0)).epsilon
    except ArithmeticError:
        return math.inf, noise  # too little noise for the precision of the laws
    if found >= _ENOUGH:
        return found, noise
    return _ENOUGH, min(noise, accountant.calibrate(law, request, target).noise)


def _suggested(table: list[Option], loss: float) -> Option:
    least = min(option.epsilon for option in table)
    if math.isinf(least):
        raise complaint(
            "tolerated_loss",
            "large enough for a noise with a finite epsilon",
            loss,
            "Tolerate more, forget fewer rows at once, or redraw.",
        )
    return next(option for option in table if option.epsilon <= _GOOD_ENOUGH * least)
