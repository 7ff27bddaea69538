"""Bounds by concentration against fresh runs of the logistic loss, and where they are loose.

The bound of row i at step k is s = eta |x| / (1 + e^(m - w)), m the mean margin of the auxiliary
runs and w = |x| tau_k (q_tails + q_means / sqrt(R))   [docs/concentration.md]. Between the largest
of the fresh runs and this bound, one thing is replaced at a time:

    largest     the largest eta |grad l| of the fresh runs at this step
    tail        a normal margin with the runs' own mean and deviation, at level delta_tails / steps
    inequality  q_tails = sqrt(2 log(2 steps / delta_tails)) in place of that normal quantile
    curvature   |x| tau_k in place of the runs' deviation: contraction by alpha alone, all noise
                along the row
    means       q_means / sqrt(R): the mean is known from R auxiliary runs
    bound       the code's own, with the auxiliary runs' own mean instead of the fresh runs'

Fresh runs are steps taken literally here, not pilu's.
"""

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from experiments.certificates.config import CONFIGS, Concentration
from experiments.smooth.config import EPSILON
from experiments.smooth.engine import Engine, engine
from experiments.store import STORES
from pilu.accounting.gdp import mu_from_epsilon
from pilu.accounting.shifted import blocks_from_sensitivities, later_variance
from pilu.data.rows import Request

Array = NDArray[np.float64]

STAGES = ("largest", "tail", "inequality", "curvature", "means", "bound")


def compute(
    size: str, again: bool = False, studies: tuple[str, ...] = ("mnist38", "vader")
) -> None:
    """Three tables a study."""
    config = CONFIGS[size].concentration
    for study in studies:

        def prepare(study: str = study) -> dict[str, Any]:
            prepared = engine(study, size)
            _ = prepared.noises
            return {
                "data": prepared.data.provenance,
                "delta": prepared.delta,
                "step_size": prepared.model.step_size_,
            }

        def tables(study: str = study) -> dict[str, pd.DataFrame]:
            found = concentration(engine(study, size), config)
            return {f"certificates_{name}_{study}": frame for name, frame in found.items()}

        settings = CONFIGS[size].describe("concentration", study)
        STORES[size].compute(f"certificates_margins_{study}", settings, prepare, tables, again)


def concentration(engine: Engine, config: Concentration) -> dict[str, pd.DataFrame]:
    """One line a row; trajectories of a few rows; the noise that each stage would need."""
    X, signs = engine.data.X, signs_of(engine)
    law, slack = engine.model.fitted_.law, engine.delta / 2
    every = np.arange(len(X))
    bounds = law.sensitivities.of_each(Request(X, signs[:, None], every), slack)
    order = np.argsort(engine.noises, kind="stable")
    places = np.round(np.array(config.quantiles) * (len(order) - 1)).astype(int)
    chosen = [int(row) for row in order[places]]
    seen = fresh_runs(engine, config, bounds, chosen)
    stages = staged(engine, seen, bounds, slack, chosen)
    T = engine.study.n_steps
    steps = np.unique(np.round(np.geomspace(1, T, config.n_points)).astype(int)) - 1
    lines, noises = [], []
    for quantile, row, found in zip(config.quantiles, chosen, stages, strict=True):
        about = {"row": row, "quantile": quantile}
        frame = pd.DataFrame({"step": steps} | {name: found[name][steps] for name in STAGES})
        lines.append(frame.assign(mean=seen.mean_sensitivity[chosen.index(row)][steps], **about))
        noises += [about | {"stage": s, "noise": noise_for(engine, found[s])} for s in STAGES]
    return {
        "margins": margins(engine, seen, bounds, slack),
        "trajectories": pd.concat(lines),
        "stages": pd.DataFrame(noises),
    }


class Seen:
    """What the fresh runs show at every step: of all rows at the last, of chosen rows at all."""

    def __init__(self, n_rows: int, n_chosen: int, n_steps: int, n_runs: int) -> None:
        self.largest_share = np.zeros((n_rows, n_runs))  # of the bound, over steps
        self.last: dict[str, Array] = {}
        self.largest = np.zeros((n_chosen, n_steps))
        self.mean = np.zeros((n_chosen, n_steps))
        self.deviation = np.zeros((n_chosen, n_steps))
        self.mean_sensitivity = np.zeros((n_chosen, n_steps))


def fresh_runs(engine: Engine, config: Concentration, bounds: Array, chosen: list[int]) -> Seen:
    """Langevin steps on all rows, the runs side by side."""
    study, X, signs = engine.study, engine.data.X, signs_of(engine)
    eta, T, R = engine.model.step_size_, study.n_steps, config.n_runs
    rng = np.random.default_rng([config.seed, study.seed])
    norms, scale = np.linalg.norm(X, axis=1), math.sqrt(2 * eta) * study.noise
    theta, seen = np.zeros((X.shape[1], R)), Seen(len(X), len(chosen), T, R)
    for k in range(T):
        margin = signs[:, None] * (X @ theta)
        slope = expit(-margin)
        sensitivity = (eta * norms)[:, None] * slope
        if k:  # the first iterate is fixed: there the bound is the sensitivity, up to rounding
            np.maximum(seen.largest_share, sensitivity / bounds[:, [k]], out=seen.largest_share)
        seen.largest[:, k] = sensitivity[chosen].max(axis=1)
        seen.mean_sensitivity[:, k] = sensitivity[chosen].mean(axis=1)
        seen.mean[:, k] = margin[chosen].mean(axis=1)
        seen.deviation[:, k] = margin[chosen].std(axis=1, ddof=1)
        if k == T - 1:
            seen.last = {
                "largest": sensitivity.max(axis=1),
                "mean": margin.mean(axis=1),
                "deviation": margin.std(axis=1, ddof=1),
            }
        gradient = X.T @ (-signs[:, None] * slope) + study.alpha * theta
        theta = theta - eta * gradient + scale * rng.standard_normal(theta.shape)
    return seen


def staged(
    engine: Engine, seen: Seen, bounds: Array, slack: float, chosen: list[int]
) -> list[dict[str, Array]]:
    """The stages of some rows at all steps."""
    tau = spreads(engine)
    found = []
    for i, row in enumerate(chosen):
        given = stages(engine, row, seen.mean[i], seen.deviation[i], tau, slack)
        found.append({"largest": seen.largest[i]} | given | {"bound": bounds[row]})
    return found


def stages(
    engine: Engine, row: int | Array, mean: Array, deviation: Array, tau: Array, slack: float
) -> dict[str, Array]:
    """All stages between the runs and the bound, at steps or of rows."""
    study, n = engine.study, len(engine.data.X)
    T, R, tails = study.n_steps, study.n_auxiliary_runs, slack / 2
    norm = np.linalg.norm(engine.data.X, axis=1)[row]
    scale, z = engine.model.step_size_ * norm, -float(ndtri(tails / T))
    q_tails = math.sqrt(2 * math.log(2 * T / tails))
    q_means = math.sqrt(2 * math.log(2 * n * T / tails))  # the other half of slack, all rows
    away = {
        "tail": z * deviation,
        "inequality": q_tails * deviation,
        "curvature": q_tails * norm * tau,
        "means": (q_tails + q_means / math.sqrt(R)) * norm * tau,
    }
    return {name: scale * expit(w - mean) for name, w in away.items()}


def margins(engine: Engine, seen: Seen, bounds: Array, slack: float) -> pd.DataFrame:
    """Every row: its largest share of the bound, and the stages at the last step."""
    rows, tau = np.arange(len(bounds)), spreads(engine)[-1]
    last = stages(engine, rows, seen.last["mean"], seen.last["deviation"], tau, slack)
    table = pd.DataFrame(
        {
            "row": rows,
            "noise": engine.noises,
            "largest_share": seen.largest_share.max(axis=1),
            "runs_above": (seen.largest_share > 1).sum(axis=1),
            "largest": seen.last["largest"],
        }
        | last
        | {"bound": bounds[:, -1]}
    )
    return table.map(lambda value: float(f"{value:.4g}") if isinstance(value, float) else value)


def spreads(engine: Engine) -> Array:
    """tau_k for c = 1 - eta alpha: tau_{k+1}^2 = c^2 tau_k^2 + 2 eta sigma^2."""
    study, eta = engine.study, engine.model.step_size_
    c2, squares = (1 - eta * study.alpha) ** 2, np.zeros(study.n_steps)
    for k in range(study.n_steps - 1):
        squares[k + 1] = c2 * squares[k] + 2 * eta * study.noise**2
    return np.sqrt(squares)


def noise_for(engine: Engine, sensitivities: Array) -> float:
    """sigma_unlearn that the theorem would ask for if these were the sensitivities."""
    law, K = engine.model.fitted_.law, engine.study.n_unlearn_steps
    eta, c = law.step_size, law.contraction
    mu = float(mu_from_epsilon(EPSILON, engine.delta / 2))
    blocks = blocks_from_sensitivities(sensitivities, law.schedule.variances(eta), c)
    return math.sqrt(blocks.extra_for(mu) / (2 * eta * later_variance(K, c)))


def signs_of(engine: Engine) -> Array:
    """1 for the second class, -1 for the first."""
    return np.where(engine.places == 1, 1.0, -1.0)
