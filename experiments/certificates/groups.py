"""Random groups forgotten at once: noise at epsilon = 1, and the accuracy afterwards.

Ridge has three accountants: `sum` adds up the rows' sensitivities (Theorem 1), `joint` bounds the
norm of the summed gradient, `exact` compares the two Gaussian laws. Logistic regression has `sum`
only, and beside it the bound that needs no probability, |x| <= 1 at every step (`uniform`). Groups
of a repeat are the first rows of one random order.
"""

import math
import time
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq

from experiments.certificates.config import CONFIGS, EPSILON, Groups
from experiments.certificates.ridge import ridge
from experiments.linear.engine import Engine as RidgeEngine
from experiments.smooth.engine import Engine as SmoothEngine
from experiments.smooth.engine import engine as smooth_engine
from experiments.store import STORES
from pilu.accounting.gdp import mu_from_epsilon
from pilu.accounting.shifted import blocks_from_sensitivities, later_variance
from pilu.certify.exact import Exact
from pilu.certify.issue import set_terms
from pilu.certify.theorem import Theorem
from pilu.data.rows import Request
from pilu.estimators.utility import Appraiser

Rows = NDArray[np.intp]

ACCOUNTANTS = {"sum": Theorem(), "joint": Theorem(group="joint"), "exact": Exact()}


def compute(size: str, again: bool = False, of: tuple[str, ...] = ("ridge", "logistic")) -> None:
    """One table a study and loss; `of` are losses, or pairs of loss and study, as "ridge vader"."""
    config = CONFIGS[size].groups
    studies = {"ridge": config.ridge, "logistic": config.logistic}
    for loss in studies:
        for study in studies[loss]:
            if not {loss, f"{loss} {study}"} & set(of):
                continue

            def prepare(loss: str = loss, study: str = study) -> dict[str, Any]:
                prepared = ridge(study, size) if loss == "ridge" else smooth_engine(study, size)
                settings = prepared.study.describe()
                _ = prepared.model
                return {
                    "data": prepared.data.provenance,
                    "delta": prepared.delta,
                    "study": {name: settings[name] for name in ("alpha", "noise", "n_steps")},
                }

            def tables(loss: str = loss, study: str = study) -> dict[str, pd.DataFrame]:
                if loss == "ridge":
                    found = of_ridge(ridge(study, size), config)
                else:
                    found = of_logistic(smooth_engine(study, size), config)
                return {f"certificates_groups_{loss}_{study}": found}

            settings = CONFIGS[size].describe("groups", study) | {"loss": loss}
            name = f"certificates_groups_{loss}_{study}"
            STORES[size].compute(name, settings, prepare, tables, again)


def groups(n_rows: int, sizes: tuple[int, ...], seed: list[int]) -> dict[int, Rows]:
    """One group of each size, the smaller ones within the larger."""
    order = np.random.default_rng(seed).permutation(n_rows)
    return {size: np.sort(order[:size]) for size in sizes}


def of_ridge(engine: RidgeEngine, config: Groups) -> pd.DataFrame:
    """One line a group and accountant; scores are expectations in closed form."""
    chain, K = engine.model.fitted_.chain, engine.study.n_unlearn_steps
    law, name, lines = chain.law(), engine.study.name, []
    appraiser = Appraiser(engine.held_out, law, K)
    fixed = tolerable_noise(engine, config.tolerated_loss)
    for repeat in range(config.repeats[name]):
        sizes, seed = config.sizes[name], [config.seed, repeat]
        for size, rows in groups(len(engine.data.X), sizes, seed).items():
            if repeat and size > config.once_above[name]:
                continue
            request = Request(engine.data.X[rows], engine.targets[rows], rows)
            with law.threads():
                (prospect,), redraw = appraiser.prospects(request, (K,))
            for kind, accountant in ACCOUNTANTS.items():
                terms = set_terms(chain, accountant, EPSILON, None, K)
                started = time.perf_counter()
                answer = terms.calibrate(request)
                seconds = time.perf_counter() - started
                line = {"size": size, "repeat": repeat, "kind": kind, "noise": answer.noise}
                if name in config.epsilon_at_fixed_noise:
                    spent = accountant.spend(terms.law, request, fixed, terms.target)
                    line |= {"fixed_noise": fixed, "epsilon_at_fixed_noise": spent.epsilon}
                after = engine.expected(prospect, answer.noise)
                line |= {"after": after, "redraw": redraw, "seconds": seconds}
                lines.append(line)
            print(f"{name}, ridge: {size} rows, repeat {repeat}", flush=True)
    constant = most_frequent(engine.data.y, engine.data.y_test)
    return pd.DataFrame(lines).assign(before=appraiser.before, constant=constant)


def tolerable_noise(engine: RidgeEngine, loss: float) -> float:
    """The noise of K steps on all rows after which so much accuracy is lost, in expectation."""
    K = engine.study.n_unlearn_steps
    forecast = engine.model.fitted_.chain.law().forecast(engine.held_out.X, K)
    prospect, least = forecast.continued(K), engine.held_out.score(forecast.before) - loss
    return float(brentq(lambda noise: engine.held_out.score(prospect.at(noise)) - least, 0, 1e3))


def of_logistic(engine: SmoothEngine, config: Groups) -> pd.DataFrame:
    """One line a group and bound; scores are those of runs."""
    study, signs = engine.study, engine.model.read_rows(engine.data.X, engine.data.y)[1]
    before, lines = engine.accuracies(engine.learned), []
    for repeat in range(config.repeats[study.name]):
        sizes, seed = config.sizes[study.name], [config.seed, repeat]
        for size, rows in groups(len(engine.data.X), sizes, seed).items():
            quoted = engine.model.quote(
                [rows.tolist()], epsilon=EPSILON, n_unlearn_steps=study.n_unlearn_steps
            )
            noises = {"sum": float(quoted.noise[0]), "uniform": uniform_noise(engine, rows)}
            left = engine.problem.without(rows, engine.data.X[rows], signs[rows])
            rng = np.random.default_rng([config.seed, repeat, size])
            start = np.zeros_like(engine.learned)
            again = engine.walked(left, start, study.n_steps, study.noise, rng)
            redraw = engine.accuracies(again).mean()
            for kind, noise in noises.items():
                theta = engine.walked(left, engine.learned, study.n_unlearn_steps, noise, rng)
                after = engine.accuracies(theta).mean()
                line = {"size": size, "repeat": repeat, "kind": kind, "noise": noise}
                lines.append(line | {"after": after, "redraw": redraw})
            print(f"{study.name}, logistic: {size} rows, repeat {repeat}", flush=True)
    constant = most_frequent(engine.data.y, engine.data.y_test)
    return pd.DataFrame(lines).assign(before=before.mean(), constant=constant)


def uniform_noise(engine: SmoothEngine, rows: Rows) -> float:
    """The theorem with eta sum |x_i| at every step: |grad l| <= |x| for any parameters."""
    law, K = engine.model.fitted_.law, engine.study.n_unlearn_steps
    eta, c = law.step_size, law.contraction
    bound = eta * np.linalg.norm(engine.data.X[rows], axis=1).sum()
    mu = float(mu_from_epsilon(EPSILON, engine.delta))
    bounds = np.full(engine.study.n_steps, bound)
    blocks = blocks_from_sensitivities(bounds, law.schedule.variances(eta), c)
    return math.sqrt(blocks.extra_for(mu) / (2 * eta * later_variance(K, c)))


def most_frequent(y: np.ndarray, y_test: np.ndarray) -> float:
    """The accuracy of always answering the most frequent label of the rows to learn."""
    labels, counts = np.unique(y, return_counts=True)
    return float(np.mean(y_test == labels[counts.argmax()]))
