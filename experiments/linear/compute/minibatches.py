"""Cyclic mini-batches: curves for several batch sizes at the same training error, and their cost.

    python -m experiments.linear.compute.minibatches --study depth --size full

Rows keep their order, batches are contiguous, T is a whole number of cycles. Rows and accountants
share the learning runs; each request has its own unlearning.
"""

import numpy as np
import pandas as pd
from tqdm import tqdm

from experiments.linear.command import compute_script
from experiments.linear.engine import Engine, summary
from pilu import LangevinRidge
from pilu.baselines.objective import descended
from pilu.certify.exact import Exact
from pilu.certify.issue import resolve_accountant, set_target
from pilu.minibatch.flows import mean_after
from pilu.minibatch.law import MinibatchLaw

MOST_CYCLES = 1000


def compute(engine: Engine) -> dict[str, pd.DataFrame]:
    study, rows = engine.study, engine.rows()
    aim = training_error(engine, full_batch_mean(engine))
    curves, costs = [], []
    for b in study.batch_sizes:
        model = LangevinRidge(
            alpha=study.alpha,
            n_steps=1,  # the problem and the step size are all that is taken from this fit
            noise=study.noise,
            batch_size=b,
            fit_intercept=False,
            random_state=study.seed,
        ).fit(engine.data.X, engine.data.y)
        T, reached = matched_steps(engine, model, aim)
        costs.append(cost(b, T, study.n_unlearn_steps, reached))
        model.set_params(n_steps=T).fit(engine.data.X, engine.data.y)
        law = model.fitted_.law
        learned = learning_runs(engine, law)
        for (row, accountant, epsilon), noise in calibrated(engine, law, rows).items():
            seed = [study.seed, 6, b, row, study.epsilons.index(epsilon), len(accountant)]
            scores = unlearning_scores(engine, law, learned, row, noise, seed)
            curves.append(
                {
                    "batch_size": b,
                    "learning_steps": T,
                    "row": row,
                    "accountant": accountant,
                    "epsilon": epsilon,
                    "noise": noise,
                    **summary(scores),
                }
            )
    costs.append(cost(len(engine.data.X), study.n_steps, study.n_unlearn_steps, aim))
    return {"minibatches": pd.DataFrame(curves), "cost": pd.DataFrame(costs)}


def full_batch_mean(engine: Engine) -> np.ndarray:
    spectrum = engine.spectrum
    return descended(spectrum, spectrum.cross, engine.step_size, engine.study.n_steps)


def training_error(engine: Engine, theta: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(engine.data.X @ theta - engine.targets))))


def matched_steps(engine: Engine, model: LangevinRidge, aim: float) -> tuple[int, float]:
    """The first whole number of cycles after which the mean has the training error asked for."""
    problem, eta = model.fitted_.chain.problem, model.step_size_
    M, theta = problem.n_batches, np.zeros((engine.data.X.shape[1], engine.n_outputs))
    for cycle in range(1, MOST_CYCLES + 1):
        theta = mean_after(problem, eta, theta, range(M))
        reached = training_error(engine, theta)
        if reached <= aim:
            return cycle * M, reached
    raise SystemExit(f"{MOST_CYCLES} cycles do not reach a training error of {aim:.4g}.")


def cost(b: int, T: int, K: int, reached: float) -> dict[str, float]:
    return {
        "batch_size": b,
        "learning_steps": T,
        "learning_cost": b * T,
        "unlearning_steps": K,
        "unlearning_cost": b * K,
        "total_cost": b * (T + K),
        "training_error": reached,
    }


def calibrated(
    engine: Engine, law: MinibatchLaw, rows: list[int]
) -> dict[tuple[int, str, float], float]:
    """sigma_unlearn by row, accountant and epsilon."""
    study, noises = engine.study, {}
    K = study.n_unlearn_steps
    targets = [set_target(law, epsilon, engine.delta, K) for epsilon in study.epsilons]
    for name in study.batch_accountants:
        accountant = resolve_accountant(name)
        accountant.prepare(law, np.array(rows))
        for row in tqdm(rows, desc=name, disable=None, leave=False):
            request = engine.request(row)
            if isinstance(accountant, Exact):  # dense: what the targets share is nearly all
                answers = accountant.calibrate_targets(law, request, targets)
            else:
                answers = [accountant.calibrate(law, request, target) for target in targets]
            for epsilon, answer in zip(study.epsilons, answers, strict=True):
                noises[row, name, epsilon] = answer.noise
    return noises


def learning_runs(engine: Engine, law: MinibatchLaw) -> np.ndarray:
    """theta_T of every run side by side, p x R."""
    study, T = engine.study, law.schedule.n_steps
    rng = np.random.default_rng([study.seed, 7, law.problem.n_batches])
    theta = np.zeros((engine.data.X.shape[1], study.n_runs))
    return walk(engine, law, theta, range(T), study.noise, rng)


def unlearning_scores(
    engine: Engine, law: MinibatchLaw, learned: np.ndarray, row: int, noise: float, seed: list[int]
) -> np.ndarray:
    T, K = law.schedule.n_steps, engine.study.n_unlearn_steps
    rng = np.random.default_rng(seed)
    theta = walk(engine, law, learned.copy(), range(T, T + K), noise, rng, forgotten=row)
    return engine.scores(theta, theta.shape[1])


def walk(
    engine: Engine,
    law: MinibatchLaw,
    theta: np.ndarray,
    steps: range,
    noise: float,
    rng: np.random.Generator,
    forgotten: int | None = None,
) -> np.ndarray:
    """Steps of the chain, batch after batch; for one output, with runs as columns."""
    X, Y, eta, problem = engine.data.X, engine.targets, law.step_size, law.problem
    b, scale = problem.batch_size, np.sqrt(2 * eta) * noise
    for k in tqdm(steps, disable=None, leave=False, delay=2):
        first = (k % problem.n_batches) * b
        here = slice(first, first + b)
        residuals = X[here] @ theta - Y[here]
        if forgotten is not None and first <= forgotten < first + b:
            residuals[forgotten - first] = 0.0
        theta -= eta * (X[here].T @ residuals + problem.alpha * theta)
        if noise > 0:
            theta += scale * rng.standard_normal(theta.shape)
    return theta


if __name__ == "__main__":
    compute_script(__doc__, "minibatches", compute)
