"""Certificates of single rows, audited by the likelihood ratio of many runs.

The certificates are those of the exact accountant at epsilon = 1 (`pilu`). The runs and their
likelihood ratio are those of `two_laws.py`, which shares no code with it. What is compared:

    delta(eps) = sup_S P(S) - e^eps Q(S) = P(l > eps) - e^eps Q(l > eps),   l = log dP/dQ,

counted in runs, and inverted from the characteristic functions of l, with the accountant's curve.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta, norm

from experiments.certificates.config import CONFIGS, EPSILON, Audits
from experiments.certificates.two_laws import Array, Problem, Steps, WithoutRow, scores
from experiments.linear.engine import Engine, engine
from experiments.store import STORES
from pilu.accounting.curves import PrivacyCurve
from pilu.auditing import Known, audit
from pilu.certify.issue import resolve_accountant, set_target

STUDIES = ("depth", "mnist")
_NORMALS_AT_ONCE = 5_000_000  # 40 MB an array
_FEW = 200  # runs beyond a threshold, below which a normal interval is not to be trusted
_ALPHAS = np.concatenate([[0.001, 0.002, 0.005], np.arange(0.01, 1.0, 0.01)])


def compute(size: str, again: bool = False, studies: tuple[str, ...] = STUDIES) -> None:
    """Three tables a study."""
    config = CONFIGS[size].audits
    for study in studies:
        marker = f"certificates_audits_{study}"

        def prepare(study: str = study) -> dict[str, Any]:
            prepared = engine(study, size)
            _ = prepared.model
            return {
                "data": prepared.data.provenance,
                "delta": prepared.delta,
                "step_size": prepared.step_size,
            }

        def tables(study: str = study) -> dict[str, pd.DataFrame]:
            found = audits(engine(study, size), config)
            return {f"certificates_{name}_{study}": frame for name, frame in found.items()}

        STORES[size].compute(
            marker, CONFIGS[size].describe("audits", study), prepare, tables, again
        )


def audits(engine: Engine, config: Audits) -> dict[str, pd.DataFrame]:
    """One line a row and noise; their curves of delta; their trade-off curves."""
    study, law = engine.study, engine.law()
    problem = Problem.of(engine.data.X, engine.targets, study.alpha)
    steps = Steps(engine.step_size, study.n_steps, study.noise, study.n_unlearn_steps)
    accountant, n_runs = resolve_accountant("exact"), config.n_runs[study.name]
    target = set_target(law, EPSILON, engine.delta, study.n_unlearn_steps)
    p, d = engine.data.X.shape[1], engine.n_outputs
    lines, curves, trades = [], [], []
    quantiles = study.row_sets[study.main_rows].quantiles
    for quantile, row in zip(quantiles, engine.rows(), strict=True):
        request = engine.request(row)
        certified = accountant.calibrate(law, request, target)
        little = accountant.spend(law, request, certified.noise / config.too_little, target)
        without = WithoutRow.of(problem, request.X[0], request.Y[0], steps)
        answers = {"certified": certified, "too little": little}
        pairs = [without.pair(answer.noise) for answer in answers.values()]
        seed = [config.seed, STUDIES.index(study.name), row]
        drawn = scores(pairs, p, n_runs, seed, max(_NORMALS_AT_ONCE // (p * d), 1))
        for (kind, answer), pair, (P, Q) in zip(answers.items(), pairs, drawn, strict=True):
            about = {"row": row, "quantile": quantile, "kind": kind}
            found = audited(P, Q, engine.delta, config)
            ahead, back = pair.deltas(np.array([*config.epsilons, answer.epsilon]))
            exact = {"noise": answer.noise, "epsilon": answer.epsilon, "delta": engine.delta}
            by_inversion = {"inverted": ahead[-1], "inverted_reverse": back[-1]}
            rest = {"directions": len(pair.excess), "runs": n_runs}
            lines.append(about | exact | by_inversion | rest | found)
            curve = deltas(P, Q, config, len(quantiles) * len(config.epsilons))
            curve.insert(1, "claimed", certified.curve.deltas(curve["epsilon"].to_numpy()))
            curves.append(curve.assign(inverted=ahead[:-1], **about))
            trades.append(trade_off(P, Q, answer.curve).assign(**about))
        print(f"{study.name}: row {row} audited", flush=True)
    return {
        "audits": pd.DataFrame(lines),
        "curves": pd.concat(curves),
        "trades": pd.concat(trades),
    }


def audited(P: Array, Q: Array, delta: float, config: Audits) -> dict[str, float]:
    """AUC with its interval, and what these runs prove."""
    found = audit(
        P[:, None],
        Q[:, None],
        delta=delta,
        confidence=config.confidence,
        seed=config.seed,
        distinguisher=Known(lambda runs: runs[:, 0], "likelihood ratio"),
    )
    half = norm.isf((1 - config.confidence) / 2) * auc_deviation(P, Q)
    return {
        "auc": found.auc,
        "auc_low": found.auc - half,
        "auc_high": found.auc + half,
        "mu_lower": found.mu_lower,
        "epsilon_lower": found.epsilon_lower,
        "epsilon_lower_reverse": found.epsilon_lower_reverse,
        "epsilon_provable": found.epsilon_provable,
    }


def auc_deviation(P: Array, Q: Array) -> float:
    """Standard deviation of the AUC by the placements of every run among the other kind.

    E. R. DeLong, D. M. DeLong and D. L. Clarke-Pearson, Biometrics 44 (1988).
    """
    above = np.searchsorted(np.sort(Q), P) / len(Q)
    below = 1 - np.searchsorted(np.sort(P), Q) / len(P)
    return float(np.sqrt(above.var(ddof=1) / len(P) + below.var(ddof=1) / len(Q)))


def deltas(P: Array, Q: Array, config: Audits, n_comparisons: int) -> pd.DataFrame:
    """delta(eps) counted, and as the mean of (1 - e^(eps - l))+ under P.

    The interval of the counts is Clopper and Pearson's for both shares together. It is valid for
    any score. That of the mean is a normal one and rests on the likelihood ratio; gains are skewed
    to the right, for which a normal lower limit is on the safe side. Each kind of interval holds
    for all rows and epsilons of a study at once, by a union bound. Half of its level is for lower
    limits, so a true claim is refuted by either kind with probability 1 - confidence at most.
    """
    level = (1 - config.confidence) / n_comparisons
    z = norm.isf(level / 2)
    lines = []
    for epsilon in config.epsilons:
        growth = np.exp(epsilon)
        (p, p_low, p_high), (q, q_low, q_high) = (
            share(int(np.sum(values > epsilon)), len(values), level / 2) for values in (P, Q)
        )
        gains = np.maximum(-np.expm1(epsilon - P), 0.0)
        mean, error = gains.mean(), z * gains.std(ddof=1) / np.sqrt(len(gains))
        if np.sum(gains > 0) < _FEW:
            mean = error = np.nan
        lines.append(
            {
                "epsilon": epsilon,
                "counted": p - growth * q,
                "low": p_low - growth * q_high,
                "high": p_high - growth * q_low,
                "mean": mean,
                "mean_low": mean - error,
                "mean_high": mean + error,
            }
        )
    return pd.DataFrame(lines)


def share(count: int, total: int, level: float) -> tuple[float, float, float]:
    """A share with Clopper and Pearson's interval of confidence 1 - level."""
    low = beta.ppf(level / 2, count, total - count + 1) if count else 0.0
    high = beta.isf(level / 2, count + 1, total - count) if count < total else 1.0
    return count / total, float(low), float(high)


def trade_off(P: Array, Q: Array, curve: PrivacyCurve) -> pd.DataFrame:
    """Misses at rates of false alarms: those of the runs, and the least by the accountant's curve.

    beta(alpha) = sup_eps max(1 - delta(eps) - e^eps alpha, e^-eps (1 - delta'(eps) - alpha)),
    delta' with P and Q exchanged   [Dong, Roth and Su, Gaussian differential privacy, Prop. 6].
    """
    epsilons = np.concatenate([np.linspace(0, 1, 41), np.linspace(1, 12, 56)[1:]])
    ahead = curve.deltas(epsilons)[:, None]
    back = replace(curve, pair=curve.pair.reversed()).deltas(epsilons)[:, None]
    growth = np.exp(epsilons)[:, None]
    least = np.maximum(1 - ahead - growth * _ALPHAS, (1 - back - _ALPHAS) / growth)
    thresholds = np.quantile(Q, 1 - _ALPHAS)
    return pd.DataFrame(
        {
            "alpha": _ALPHAS,
            "beta": np.searchsorted(np.sort(P), thresholds, side="right") / len(P),
            "least": np.maximum(least.max(axis=0), 0.0),
        }
    )
