"""A loss is tried out before anything is learned with it: slips are found, promises not proved."""

import itertools
import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_real
from pilu.exceptions import WrongInput
from pilu.losses.loss import Huber, Logistic, Loss, Softmax, Squared

__all__ = ["check_loss", "probe"]

Array = NDArray[np.float64]

_OURS = {loss.name: loss for loss in (Huber, Logistic, Softmax, Squared)}
_ROWS = 32  # of the targets
_SCALES = (1e-3, 0.1, 1.0, 10.0, 100.0)  # of scores
_STEPS = np.array([0.1, 0.1, 0.1, 1.0, 1.0, 3.0])  # from a score to another, of its scale
_ROUNDING = 1e-6  # relative
_MOST_ROUNDING = 1e-3  # of the largest gradient
_EXACT = 1e-9  # as a score, what a gradient or a statistic may be off by


def check_loss(loss: Loss) -> None:
    """Refuse a loss that does not say what a certificate needs."""
    if not isinstance(loss, Loss):
        raise WrongInput(f"make_loss must return a pilu.losses.Loss, got {loss!r}.")
    kind = type(loss)
    name, stated = kind.__dict__.get("name"), getattr(loss, "name", None)
    if not isinstance(name, str) or stated != name or _OURS.get(name, kind) is not kind:
        raise WrongInput(
            f"name must be a text of {kind.__name__}'s own, got {stated!r}: the certificate would "
            "speak of another loss."
        )
    for number in ("smoothness", "lipschitz"):
        check_real(number, getattr(loss, number, None), above=0.0)
    try:
        json.dumps(loss.describe(), allow_nan=False)
    except (TypeError, ValueError):
        raise WrongInput(
            f"options of the {name} loss must be numbers or text, for they stand in the "
            f"certificate, got {loss.describe()!r}."
        ) from None


def probe(loss: Loss, targets: Array) -> None:
    """Try a loss at random scores of a few rows: shapes, and what it promises."""
    rng, targets = np.random.default_rng(0), _fixed(targets[:_ROWS, None, :])
    n, _, C = targets.shape
    # Scores begin at zero, as far from the targets as these are large.
    far = [size] if (size := float(np.abs(targets).max(initial=0.0))) > _SCALES[-1] else []
    for scale in (*_SCALES, *far):
        here = _fixed(targets + scale * rng.standard_normal((n, 6, C)))
        steps = scale * rng.standard_normal(here.shape) * _STEPS[:, None]
        there = _fixed(here + steps)
        one, other = (_looked_at(loss, z, targets) for z in (here, there))
        promises = _promises(loss, there - here, one, other)
        if scale >= _SCALES[-1]:  # below, the rounding of a value can be larger than its changes
            promises = itertools.chain(promises, _of_values(there - here, one, other))
        for promise, found, most in promises:
            if not (found <= most).all():
                raise WrongInput(
                    f"{promise} of the {loss.name} loss does not hold: at scores of size "
                    f"{scale:g} there was {np.max(found - most):.3g} more than it allows. Nothing "
                    "can be certified with it (docs/losses.md)."
                )


class _Look(NamedTuple):
    value: Array
    slope: Array
    statistic: Array
    rounding: float  # of scores

    @property
    def steepness(self) -> Array:
        """|dl/dz|."""
        return np.asarray(np.linalg.norm(self.slope, axis=-1))


def _promises(
    loss: Loss, step: Array, one: _Look, other: _Look
) -> Iterator[tuple[str, Array, Array]]:
    """What was found between two scores, and the most that there may be."""
    moved, C = np.linalg.norm(step, axis=-1), step.shape[-1]
    rounding = one.rounding + other.rounding
    slack = loss.smoothness * (_EXACT + rounding)  # of a gradient
    g, h = one.statistic, other.statistic
    low, high = np.minimum(g, h), np.maximum(g, h)
    # A row's points lie in the interval between two of them, and in one around all.
    around = low.min(axis=1, keepdims=True), high.max(axis=1, keepdims=True)
    for (start, end), points in (
        ((g, g), [one]),
        ((low, high), [one, other]),
        (around, [one, other]),
    ):
        found = loss.largest_gradient(start, end, C)
        largest = _shaped(loss, "largest_gradient", found, start.shape)
        for point in points:
            # However large the scores, most of a gradient is not taken for rounding.
            room = min(slack, _MOST_ROUNDING * float(point.steepness.max()))
            yield "largest_gradient", point.steepness, largest * (1 + _ROUNDING) + room
    turned = np.linalg.norm(other.slope - one.slope, axis=-1)
    yield "smoothness", turned, loss.smoothness * moved * (1 + _ROUNDING) + slack
    apart = loss.lipschitz * (moved * (1 + _ROUNDING) + _EXACT + rounding)
    yield "lipschitz", np.abs(h - g), apart
    yield "convexity", -np.sum((other.slope - one.slope) * step, axis=-1), slack * moved


def _of_values(step: Array, one: _Look, other: _Look) -> Iterator[tuple[str, Array, Array]]:
    """A convex function rises by no less than its slope before, and by no more than that after."""
    moved, steep = np.linalg.norm(step, axis=-1), one.steepness + other.steepness
    risen, rounding = other.value - one.value, one.rounding + other.rounding
    slack = steep * (_ROUNDING * moved + rounding) + _ROUNDING * np.max(np.abs(risen))
    slack += rounding * np.maximum(np.abs(one.value), np.abs(other.value))
    yield "gradient as that of value", np.sum(one.slope * step, axis=-1) - risen, slack
    yield "gradient as that of value", risen - np.sum(other.slope * step, axis=-1), slack


def _fixed(array: Array) -> Array:
    """A copy that nobody writes into."""
    array = np.array(array)
    array.flags.writeable = False
    return array


def _looked_at(loss: Loss, scores: Array, targets: Array) -> _Look:
    """Value, gradient and statistic, of the shapes that they must have."""
    one_less = scores.shape[:-1]
    return _Look(
        _shaped(loss, "value", loss.value(scores, targets), one_less),
        _shaped(loss, "gradient", loss.gradient(scores, targets), scores.shape),
        _shaped(loss, "statistic", loss.statistic(scores, targets), one_less),
        2.0**-44 * float(np.abs(scores).max()),
    )


def _shaped(loss: Loss, name: str, found: Array, shape: tuple[int, ...]) -> Array:
    if np.shape(found) != shape or not np.isfinite(found).all():
        raise WrongInput(
            f"{name} of the {loss.name} loss must be finite and of shape {shape} for scores of "
            f"shape (rows, runs, scores), got shape {np.shape(found)}."
        )
    return found
