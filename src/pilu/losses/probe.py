"""Tests of a loss at random scores before learning. They find mistakes but prove nothing."""

import itertools
import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_real
from pilu.exceptions import WrongInput
from pilu.losses.loss import Huber, Logistic, Loss, Softmax, Squared

Array = NDArray[np.float64]

_OURS = {loss.name: loss for loss in (Huber, Logistic, Softmax, Squared)}
_ROWS = 32  # of the targets that are tried
_SCALES = (1e-3, 0.1, 1.0, 10.0, 100.0)  # of scores
_STEPS = np.array([0.1, 0.1, 0.1, 1.0, 1.0, 3.0])  # between two scores, relative to the scale
_ROUNDING = 1e-6  # relative
_MOST_ROUNDING = 1e-3  # of the largest gradient
_EXACT = 1e-9  # error of a gradient or a statistic, in units of a score


def check_loss(loss: Loss) -> None:
    """Refuse a loss without the attributes that a certificate needs."""
    if not isinstance(loss, Loss):
        raise WrongInput(f"make_loss must return a pilu.losses.Loss, got {loss!r}.")
    kind = type(loss)
    name, stated = kind.__dict__.get("name"), getattr(loss, "name", None)
    if not isinstance(name, str) or stated != name or _OURS.get(name, kind) is not kind:
        raise WrongInput(
            f"name must be a string defined in {kind.__name__} and not taken by pilu, got "
            f"name={stated!r}. The certificate would name another loss."
        )
    for number in ("smoothness", "lipschitz"):
        check_real(number, getattr(loss, number, None), above=0.0)
    try:
        json.dumps(loss.describe(), allow_nan=False)
    except (TypeError, ValueError):
        raise WrongInput(
            f"options of the {name} loss must be numbers or strings, got {loss.describe()!r}. The "
            "certificate records them."
        ) from None


def probe(loss: Loss, targets: Array) -> None:
    """Test shapes and stated bounds of a loss at random scores of a few rows."""
    rng, targets = np.random.default_rng(0), _fixed(targets[:_ROWS, None, :])
    n, _, C = targets.shape
    # Chains start at score zero: its distance to large targets is a scale, too.
    far = [size] if (size := float(np.abs(targets).max(initial=0.0))) > _SCALES[-1] else []
    for scale in (*_SCALES, *far):
        here = _fixed(targets + scale * rng.standard_normal((n, 6, C)))
        steps = scale * rng.standard_normal(here.shape) * _STEPS[:, None]
        there = _fixed(here + steps)
        one, other = (_evaluate(loss, z, targets) for z in (here, there))
        claims = _claims(loss, there - here, one, other)
        if scale >= _SCALES[-1]:  # below, rounding may exceed the change of a value
            claims = itertools.chain(claims, _claims_of_values(there - here, one, other))
        for claim, measured, most in claims:
            if not (measured <= most).all():
                raise WrongInput(
                    f"{claim} of the {loss.name} loss does not hold: at scores of size {scale:g} "
                    f"it is violated by {np.max(measured - most):.3g}. Nothing can be certified "
                    "with this loss (docs/losses.md)."
                )


class _Evaluation(NamedTuple):
    value: Array
    slope: Array
    statistic: Array
    rounding: float  # error of the scores

    @property
    def steepness(self) -> Array:
        """|dl/dz|."""
        return np.asarray(np.linalg.norm(self.slope, axis=-1))


def _claims(
    loss: Loss, step: Array, one: _Evaluation, other: _Evaluation
) -> Iterator[tuple[str, Array, Array]]:
    """(claim, measured value, largest allowed value) for pairs of scores."""
    moved, C = np.linalg.norm(step, axis=-1), step.shape[-1]
    rounding = one.rounding + other.rounding
    slack = loss.smoothness * (_EXACT + rounding)  # of a gradient
    g, h = one.statistic, other.statistic
    low, high = np.minimum(g, h), np.maximum(g, h)
    # Intervals: one point, two points, all points of a row.
    around = low.min(axis=1, keepdims=True), high.max(axis=1, keepdims=True)
    for (start, end), points in (
        ((g, g), [one]),
        ((low, high), [one, other]),
        (around, [one, other]),
    ):
        stated = loss.largest_gradient(start, end, C)
        largest = _check_shape(loss, "largest_gradient", stated, start.shape)
        for point in points:
            # Rounding explains only a small part of a gradient, however large the scores are.
            room = min(slack, _MOST_ROUNDING * float(point.steepness.max()))
            yield "largest_gradient", point.steepness, largest * (1 + _ROUNDING) + room
    turned = np.linalg.norm(other.slope - one.slope, axis=-1)
    yield "smoothness", turned, loss.smoothness * moved * (1 + _ROUNDING) + slack
    apart = loss.lipschitz * (moved * (1 + _ROUNDING) + _EXACT + rounding)
    yield "lipschitz", np.abs(h - g), apart
    yield "convexity", -np.sum((other.slope - one.slope) * step, axis=-1), slack * moved


def _claims_of_values(
    step: Array, one: _Evaluation, other: _Evaluation
) -> Iterator[tuple[str, Array, Array]]:
    """A convex function rises at least by its slope at the start, at most by that at the end."""
    moved, steep = np.linalg.norm(step, axis=-1), one.steepness + other.steepness
    risen, rounding = other.value - one.value, one.rounding + other.rounding
    slack = steep * (_ROUNDING * moved + rounding) + _ROUNDING * np.max(np.abs(risen))
    slack += rounding * np.maximum(np.abs(one.value), np.abs(other.value))
    yield "gradient as that of value", np.sum(one.slope * step, axis=-1) - risen, slack
    yield "gradient as that of value", risen - np.sum(other.slope * step, axis=-1), slack


def _fixed(array: Array) -> Array:
    """A read-only copy."""
    array = np.array(array)
    array.flags.writeable = False
    return array


def _evaluate(loss: Loss, scores: Array, targets: Array) -> _Evaluation:
    """Value, gradient and statistic, with their shapes checked."""
    one_less = scores.shape[:-1]
    return _Evaluation(
        _check_shape(loss, "value", loss.value(scores, targets), one_less),
        _check_shape(loss, "gradient", loss.gradient(scores, targets), scores.shape),
        _check_shape(loss, "statistic", loss.statistic(scores, targets), one_less),
        2.0**-44 * float(np.abs(scores).max()),
    )


def _check_shape(loss: Loss, name: str, values: Array, shape: tuple[int, ...]) -> Array:
    if np.shape(values) != shape or not np.isfinite(values).all():
        raise WrongInput(
            f"{name} of the {loss.name} loss must be finite and of shape {shape} for scores of "
            f"shape (rows, runs, scores), got shape {np.shape(values)}."
        )
    return values
