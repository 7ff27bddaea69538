"""A loss is tried out before anything is learned with it: slips are found, promises not proved."""

import json

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_real
from pilu.losses.loss import Huber, Logistic, Loss, Softmax, Squared

__all__ = ["check_loss", "probe"]

Array = NDArray[np.float64]

_OURS = {loss.name: loss for loss in (Huber, Logistic, Softmax, Squared)}
_ROWS = 32  # of the targets
_SCALES = (1e-3, 0.1, 1.0, 10.0, 100.0)  # of scores
_ROUNDING = 1e-6  # relative


def check_loss(loss: Loss) -> None:
    """Refuse a loss that does not say what a certificate needs."""
    if not isinstance(loss, Loss):
        raise ValueError(f"make_loss must return a pilu.losses.Loss, got {loss!r}.")
    kind = type(loss)
    name = kind.__dict__.get("name")
    if not isinstance(name, str) or _OURS.get(name, kind) is not kind:
        raise ValueError(
            f"name must be a text of {kind.__name__}'s own, got {name!r}: the certificate would "
            "speak of another loss."
        )
    for number in ("smoothness", "lipschitz"):
        check_real(number, getattr(loss, number, None), above=0.0)
    try:
        json.dumps(loss.describe(), allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError(
            f"options of the {name} loss must be numbers or text, for they stand in the "
            f"certificate, got {loss.describe()!r}."
        ) from None


def probe(loss: Loss, targets: Array) -> None:
    """Try a loss at random scores of a few rows: shapes, and what it promises of its gradient."""
    rng, targets = np.random.default_rng(0), targets[:_ROWS, None, :]
    n, _, C = targets.shape
    for scale in _SCALES:
        here = targets + scale * rng.standard_normal((n, 4, C))
        there = here + scale * rng.standard_normal(here.shape) / 10
        (slope, g), (other, h) = (_looked_at(loss, z, targets) for z in (here, there))
        moved = np.linalg.norm(there - here, axis=-1)
        largest = _shaped(loss, "largest_gradient", loss.largest_gradient(g, g, C), g.shape)
        room = _ROUNDING * (1 + np.abs(here).max())
        for promise, found, most in (
            ("largest_gradient", np.linalg.norm(slope, axis=-1), largest),
            ("lipschitz", np.abs(h - g), loss.lipschitz * moved),
            ("smoothness", np.linalg.norm(other - slope, axis=-1), loss.smoothness * moved),
        ):
            if not (found <= most * (1 + _ROUNDING) + room).all():
                raise ValueError(
                    f"{promise} of the {loss.name} loss does not hold: at scores of size "
                    f"{scale:g} there was {np.max(found - most):.3g} more than it allows. Nothing "
                    "can be certified with it (docs/losses.md)."
                )


def _looked_at(loss: Loss, scores: Array, targets: Array) -> tuple[Array, Array]:
    """Gradient and statistic, of the shapes that they must have."""
    _shaped(loss, "value", loss.value(scores, targets), scores.shape[:-1])
    return (
        _shaped(loss, "gradient", loss.gradient(scores, targets), scores.shape),
        _shaped(loss, "statistic", loss.statistic(scores, targets), scores.shape[:-1]),
    )


def _shaped(loss: Loss, name: str, found: Array, shape: tuple[int, ...]) -> Array:
    if np.shape(found) != shape or not np.isfinite(found).all():
        raise ValueError(
            f"{name} of the {loss.name} loss must be finite and of shape {shape} for scores of "
            f"shape (rows, runs, scores), got shape {np.shape(found)}."
        )
    return found
