"""Losses and steps on rows written out from their definitions, for tests of smooth losses."""

import math

import numpy as np
from sklearn.linear_model import LogisticRegression

KINDS = ["logistic", "softmax", "huber"]
THRESHOLD = 0.7


def problem(kind, seed=0, n=30):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    signal = X @ rng.normal(size=(4, 3)) + 0.5 * rng.normal(size=(n, 3))
    if kind == "huber":
        return X, signal[:, :2]
    labels = np.argmax(signal, axis=1) if kind == "softmax" else (signal[:, 0] > 0).astype(int)
    labels[: labels.max() + 1] = np.arange(labels.max() + 1)
    return X, np.array(["a", "b", "c"])[labels]


# The losses once more, from their definitions: one row's gradient in theta (p x C).


def slope(kind, z, y):
    if kind == "logistic":
        return -y * np.exp(-np.logaddexp(0, y * z))
    if kind == "softmax":
        return np.exp(z - z.max()) / np.sum(np.exp(z - z.max())) - y
    return np.array([max(-THRESHOLD, min(THRESHOLD, r)) for r in z - y])


def row_gradient(kind, theta, x, y):
    return np.outer(x, slope(kind, x @ theta, y))


def full_gradient(kind, theta, X, Y, alpha):
    total = alpha * theta
    for x, y in zip(X, Y, strict=True):
        total = total + row_gradient(kind, theta, x, y)
    return total


def walk(kind, theta, X, Y, task, n_steps, noises=None, radius=math.inf):
    for k in range(n_steps):
        theta = theta - task.step_size * full_gradient(kind, theta, X, Y, task.alpha)
        if noises is not None:
            theta = theta + noises[k]
        norm = np.linalg.norm(theta)
        theta = theta * (radius / norm) if norm > radius else theta
    return theta


def drawn(stream, count, shape, scale, seed=3):
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream,)))
    return [scale * rng.standard_normal(shape) for _ in range(count)]


def zeros(task):
    return np.zeros((task.X.shape[1], task.Y.shape[1]))


def without(task, rows):
    return (np.delete(values, rows, axis=0) for values in (task.X, task.Y))


def refit(kind, X, Y, alpha):
    """scikit-learn's minimiser, as p x C; two classes have one score."""
    labels = Y[:, 0] if kind == "logistic" else np.argmax(Y, axis=1)
    model = LogisticRegression(C=1 / alpha, fit_intercept=False, tol=1e-12, max_iter=10_000)
    return model.fit(X, labels).coef_.T
