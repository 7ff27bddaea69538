"""Exposure of everybody, by releases with default noise and with caps, and what caps cost.

The heads are ridge classifiers, for which exposure is exact, and logistic regression for customers.
A cap's score is the mean over draws of its noise: N(0, s^2 A^-1) with A = kappa X'X + f alpha I on
every output (docs/exposure.md), around scikit-learn's own fit.
"""

import math
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import cholesky, solve_triangular
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from experiments.methods.config import SETTINGS, Exposures
from experiments.methods.contestants import parameters
from experiments.methods.data import Case, load
from experiments.store import STORES
from pilu import Forgetful
from pilu.exceptions import PiluError

ALPHA = 1.0


def compute(size: str, again: bool = False) -> None:
    """A table of sorted exposures and one of costs for each data set."""
    settings = SETTINGS[size]
    config = settings.exposures
    for name in config.data:
        cases: dict[str, Case] = {}

        def prepare(name: str = name, cases: dict[str, Case] = cases) -> dict[str, Any]:
            cases[name] = load(name, size, settings.n_customers)
            return {"data": cases[name].provenance(), "alpha": ALPHA}

        def tables(name: str = name, cases: dict[str, Case] = cases) -> dict[str, pd.DataFrame]:
            curves, costs = exposed(cases[name], config)
            return {f"methods_exposure_{name}": curves, f"methods_exposure_{name}_costs": costs}

        given = settings.describe(config) | {"data": name}
        STORES[size].compute(f"methods_exposure_{name}", given, prepare, tables, again)


def head_of(case: Case) -> Any:
    if case.name == "customers":
        return LogisticRegression(C=1 / ALPHA, fit_intercept=False, tol=1e-8, max_iter=100_000)
    return RidgeClassifier(alpha=ALPHA, fit_intercept=False)


def exposed(case: Case, config: Exposures) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Sorted exposures of every release, and the scores."""
    plain = fitted(case, exposure_delta=config.delta)
    curves = [curve(case, "default", plain, config)]
    costs = [cost(case, "no noise", math.inf, [case.score(centre(case))])]
    costs.append(cost(case, "default", math.inf, [case.score(parameters(plain))]))
    for cap in config.plan:
        name = f"cap {cap:g}"
        try:
            capped = fitted(case, max_exposure=cap, exposure_delta=config.delta)
        except PiluError as error:
            costs.append(cost(case, name, cap, [], why=str(error).split(":")[0]))
            continue
        costs.append(cost(case, name, cap, scores(case, capped, config.n_draws)))
        if cap in config.caps:
            curves.append(curve(case, name, capped, config))
        print(f"{case.name}, {name}: {costs[-1]['mean']:.4f}", flush=True)
    return pd.concat(curves), pd.DataFrame(costs)


def fitted(case: Case, **options: Any) -> Forgetful:
    return Forgetful(head_of(case), **options).fit(case.X, case.y, subjects=case.people)


def curve(case: Case, name: str, model: Forgetful, config: Exposures) -> pd.DataFrame:
    """Exposures from the largest down, at so many shares of the people."""
    found = model.exposure(delta=config.delta)
    epsilons = np.sort(found.epsilon)[::-1]
    places = np.unique(np.linspace(0, len(epsilons) - 1, config.n_points).round().astype(int))
    return pd.DataFrame(
        {
            "data": case.name,
            "release": name,
            "people": len(epsilons),
            "share": (places + 1) / len(epsilons),
            "epsilon": epsilons[places],
            "infinite": float(np.mean(np.isinf(epsilons))),
            "median": epsilons[len(epsilons) // 2],
        }
    )


def cost(
    case: Case, name: str, cap: float, found: list[float] | np.ndarray, why: str = ""
) -> dict[str, Any]:
    """The mean score, and the middle 95 % of the draws."""
    scores = np.asarray(found if len(found) else [np.nan])
    low, high = np.quantile(scores, [0.025, 0.975])
    about = {"data": case.name, "measure": case.measure, "release": name, "cap": cap}
    numbers = {"mean": scores.mean(), "low": low, "high": high}
    return about | numbers | {"constant": case.constant(), "why": why}


def centre(case: Case) -> np.ndarray:
    return parameters(head_of(case).fit(case.X, case.y))


def scores(case: Case, model: Forgetful, n_draws: int) -> list[float]:
    """Of draws of the noise around scikit-learn's fit."""
    theta = centre(case)
    kappa = 0.25 if case.name == "customers" else 1.0
    A = kappa * case.X.T @ case.X + model.noise_penalty_ * ALPHA * np.eye(case.X.shape[1])
    factor, rng = cholesky(A), np.random.default_rng(0)
    normals = (rng.standard_normal(theta.shape) for _ in range(n_draws))
    noises = (model.noise_scale_ * solve_triangular(factor, normal) for normal in normals)
    return [case.score(theta + noise) for noise in noises]
