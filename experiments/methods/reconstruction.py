"""Images that were deleted, computed from models of pixels.

For ridge with A = X'X + alpha I and A' = A - xx', the normal equations with and without a row give

    A' (theta - theta') = x r',     r = y - theta'x,

a matrix of rank one, with theta from before and theta' from after the deletion. From exact models
its first singular vector is the row. Against noise the attacker is stronger than that: with all
other rows, A' and the exact theta' are known, and so is the law of the noise. The attacker tries
every class y. With W the root of the noise's precision and a Gaussian prior of the other rows, x is
found by turns: for given r the posterior mean of x, then r = y - theta'x anew.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.linalg import cholesky, eigh, solve, solve_triangular
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier

from experiments.methods.config import SETTINGS, Reconstructions
from experiments.methods.contestants import parameters
from experiments.methods.reconstruction_kinds import (
    CAPPED,
    CLASS_MEAN,
    DEFAULT,
    EXACT,
    MEAN,
    NEVER,
    PUBLIC,
)
from experiments.store import STORES, sha256_of_arrays
from pilu import Forgetful
from pilu.datasets import load_mnist

_TURNS = 12


def compute(size: str, again: bool = False) -> None:
    """The likeness of every deleted image, and the pixels of those that are shown."""
    settings = SETTINGS[size]
    config = settings.reconstructions
    for name in config.data:
        marker = f"methods_reconstruction_{name}"
        held: dict[str, Pixels] = {}

        def prepare(name: str = name, held: dict[str, "Pixels"] = held) -> dict[str, Any]:
            held[name] = load(name)
            return {"sha256": sha256_of_arrays(held[name].X, held[name].public)}

        def tables(
            name: str = name, marker: str = marker, held: dict[str, "Pixels"] = held
        ) -> dict[str, pd.DataFrame]:
            lines, pixels, models = attacked(held[name], config)
            return {marker: lines, f"{marker}_pixels": pixels, f"{marker}_models": models}

        given = settings.describe(config) | {"data": name}
        STORES[size].compute(marker, given, prepare, tables, again)


@dataclass(frozen=True, eq=False)
class Pixels:
    """Images as rows of pixels from 0 to 1 with a last column of ones, learned by ridge."""

    name: str
    alpha: float
    X: np.ndarray
    y: np.ndarray
    public: np.ndarray  # rows of the same kind that were not learned
    public_y: np.ndarray

    @property
    def head(self) -> RidgeClassifier:
        return RidgeClassifier(alpha=self.alpha, fit_intercept=False)

    @cached_property
    def gram(self) -> np.ndarray:
        return self.X.T @ self.X

    def without(self, row: int) -> np.ndarray:
        """A', of the rows that are left."""
        return self.gram - np.outer(self.X[row], self.X[row]) + self.alpha * np.eye(len(self.gram))


def load(name: str) -> Pixels:
    """Digits of 8 x 8 pixels, or MNIST's of 28 x 28."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return pixels_of(name, 1.0, X / 16, y, n_learned=1400)
    mnist = load_mnist()
    X = mnist.train_images[:4000].reshape(4000, -1) / 255
    return pixels_of(name, 10.0, X, mnist.train_labels[:4000], n_learned=3000)


def pixels_of(name: str, alpha: float, X: np.ndarray, y: np.ndarray, n_learned: int) -> Pixels:
    Z = np.hstack([X, np.ones((len(X), 1))])
    n = n_learned
    return Pixels(name, alpha, Z[:n], y[:n].astype(int), Z[n:], y[n:].astype(int))


# The attack


def rank_one(difference: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """x from A' (theta - theta') = x r', without noise; the last entry of x is one."""
    u = np.linalg.svd(matrix @ difference, full_matrices=False)[0][:, 0]
    return u / u[-1]


@dataclass(frozen=True, eq=False)
class Attacker:
    """What the attacker knows besides the release: A', theta', other rows, the noise's shape."""

    matrix: np.ndarray
    after: np.ndarray
    others: np.ndarray
    root: np.ndarray | None  # W of the noise at scale 1; None is the identity

    @cached_property
    def seen(self) -> np.ndarray:
        """W A'^-1: what the row's pixels do to the whitened difference."""
        inverse = solve(self.matrix, np.eye(len(self.matrix)), assume_a="pos")
        return inverse if self.root is None else self.root @ inverse

    @cached_property
    def prior(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the other rows; the ones are known."""
        covariance = np.cov(self.others.T)
        p = len(covariance) - 1
        covariance[:p, :p] += 1e-3 * np.trace(covariance) / p * np.eye(p)
        return self.others.mean(axis=0), covariance

    @cached_property
    def usual(self) -> np.ndarray:
        """The root of the prior's precision, without the ones."""
        factor = cholesky(self.prior[1][:-1, :-1], lower=True)
        return solve_triangular(factor, np.eye(len(factor)), lower=True)

    @cached_property
    def basis(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and eigenvectors of seen C seen'."""
        half = self.seen @ self.prior[1] @ self.seen.T
        return eigh((half + half.T) / 2)

    def best_row(self, seen: np.ndarray, deviation: float) -> np.ndarray:
        """The posterior mean of x given W A'^-1 x plus noise of this deviation."""
        mean, covariance = self.prior
        values, vectors = self.basis
        off = vectors.T @ (seen - self.seen @ mean)
        weights = off / (np.maximum(values, 0.0) + deviation**2)
        return mean + covariance @ (self.seen.T @ (vectors @ weights))

    def likeliest(self, difference: np.ndarray, scale: float) -> np.ndarray:
        """x from theta - theta' with noise of this scale: that of the likeliest class."""
        seen = difference if self.root is None else self.root @ difference
        mean = self.prior[0]
        found = []
        for y in 2 * np.eye(difference.shape[1]) - 1:  # targets of a ridge classifier
            x = mean
            for _ in range(_TURNS):
                r = y - self.after.T @ x
                x = self.best_row(seen @ r / (r @ r), scale / float(np.linalg.norm(r)))
            misfit = np.sum((seen - np.outer(self.seen @ x, y - self.after.T @ x)) ** 2)
            unlikely = np.sum((self.usual @ (x - mean)[:-1]) ** 2)
            found.append((float(misfit / scale**2 + unlikely), x))
        return min(found, key=lambda one: one[0])[1]


# The trial


class Capped(NamedTuple):
    """What a release with a cap on exposure gives away about its noise, and its accuracy."""

    cap: float
    scale: float
    factor: float
    accuracy: float


def capped_release(study: Pixels, cap: float, delta: float) -> Capped:
    model = Forgetful(study.head, max_exposure=cap, exposure_delta=delta).fit(study.X, study.y)
    accuracy = model.score(study.public, study.public_y)
    return Capped(cap, float(model.noise_scale_), float(model.noise_penalty_), accuracy)


def attacked(study: Pixels, config: Reconstructions) -> tuple[pd.DataFrame, ...]:
    """Likeness of what the attacker finds; pixels of some; accuracies of the models."""
    rng = np.random.default_rng(config.seed)
    rows = rng.choice(len(study.X), config.n_rows, replace=False)
    head = study.head.fit(study.X, study.y)
    plain = Forgetful(study.head).fit(study.X, study.y)
    sigma = Forgetful(study.head).fit(study.X, study.y).unlearn(rows=[0]).noise
    capped = [capped_release(study, cap, config.delta) for cap in config.caps]
    models = [(EXACT, head.score(study.public, study.public_y), np.nan, np.nan)]
    models.append((DEFAULT, plain.score(study.public, study.public_y), np.nan, np.nan))
    models += [(CAPPED.format(c.cap), c.accuracy, c.scale, c.factor) for c in capped]
    lines, pixels = [], []
    for k, row in enumerate(map(int, rows)):
        found = found_by_attacks(study, row, parameters(head), plain, sigma, capped, rng)
        truth, mean = study.X[row][:-1], found[MEAN][:-1]
        for kind, x in found.items():
            about = {"data": study.name, "row": row, "label": study.y[row], "kind": kind}
            like = np.corrcoef(x[:-1], truth)[0, 1]
            lines.append(
                about | {"correlation": like, "likeness": cosine(x[:-1] - mean, truth - mean)}
            )
        if k < config.n_shown:
            shown = {"original": study.X[row]} | found
            pixels += [flat_picture(study, row, kind, x) for kind, x in shown.items()]
        print(f"{study.name}: image {k + 1} of {len(rows)}", flush=True)
    scores = pd.DataFrame(models, columns=["kind", "accuracy", "scale", "factor"])
    return pd.DataFrame(lines), pd.DataFrame(pixels), scores.assign(data=study.name)


def found_by_attacks(
    study: Pixels,
    row: int,
    before: np.ndarray,
    plain: Forgetful,
    sigma: float,
    capped: list[Capped],
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """What each attack finds for one deleted row."""
    left = np.delete(np.arange(len(study.X)), row)
    matrix, others = study.without(row), study.X[left]
    after = parameters(study.head.fit(others, study.y[left]))
    exact = before - after
    default = parameters(plain.fit(study.X, study.y))  # a new draw
    flat = Attacker(matrix, after, others, np.diag(1 / default_spread(study.X, sigma)))
    public = study.public.T @ study.public * len(left) / len(study.public)
    found = {
        EXACT: rank_one(exact, matrix),
        PUBLIC: rank_one(exact, public + study.alpha * np.eye(len(public))),
        DEFAULT: flat.likeliest(default - after, 1.0),
    }
    whole = matrix + np.outer(study.X[row], study.X[row])
    for release in capped:
        extra = (release.factor - 1) * study.alpha * np.eye(len(matrix))
        shaped = Attacker(matrix, after, others, cholesky(matrix + extra))
        noise = release.scale * noise_of(whole + extra, exact.shape, rng)
        found[CAPPED.format(release.cap)] = shaped.likeliest(exact + noise, release.scale)
    noise = release.scale * noise_of(matrix + extra, exact.shape, rng)
    found[NEVER] = shaped.likeliest(noise, release.scale)  # of the last cap
    found[MEAN] = others.mean(axis=0)
    found[CLASS_MEAN] = others[study.y[left] == study.y[row]].mean(axis=0)
    return found


def default_spread(X: np.ndarray, sigma: float) -> np.ndarray:
    """Deviation of every coefficient's noise in a default release.

    Columns are divided by the power of two just above their largest entry, or by two if they are
    empty (docs/refit.md).
    """
    _, exponent = np.frexp(np.where(X.any(axis=0), np.abs(X).max(axis=0), 1.0))
    return sigma / 2.0**exponent


def noise_of(shape: np.ndarray, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """A^-1/2 N(0, I), one column an output."""
    return solve_triangular(cholesky(shape), rng.standard_normal(size))


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / lengths if lengths else 0.0


def flat_picture(study: Pixels, row: int, kind: str, x: np.ndarray) -> dict[str, Any]:
    """An image as a line of the table: grey levels from 0 to 99, two digits each."""
    levels = np.clip(np.round(99 * x[:-1]), 0, 99).astype(int)
    text = "x" + "".join(f"{level:02d}" for level in levels)  # no number, for readers of tables
    return {"data": study.name, "row": row, "label": study.y[row], "kind": kind, "pixels": text}
