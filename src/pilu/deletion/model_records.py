"""A fitted estimator as plain numbers and arrays, and back: what a store keeps of it.

It keeps the statistics and eigenbasis of ridge, the parameters, keyed digests of the rows that are
left, the schedule, the running total, and the seed of the auxiliary runs, which every request
replaces. It keeps no rows, names, seeds of the chain's noise, evidence or auxiliary runs.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._digits import up_to_grid
from pilu.accounting.composition import Spent
from pilu.chains.chain import Chain, Problem
from pilu.chains.schedule import Schedule, Segment
from pilu.data.rows import RowSource
from pilu.data.statistics import Statistics
from pilu.estimators.fitted import Fitted
from pilu.estimators.outputs import LangevinRegression
from pilu.estimators.requests import RowBook
from pilu.estimators.ridge import LangevinRidge, LangevinRidgeClassifier
from pilu.estimators.smooth import LangevinHuber, LangevinLogistic
from pilu.exceptions import StoreDamaged, WrongInput
from pilu.losses.law import AuxiliaryRuns
from pilu.losses.problem import SmoothProblem
from pilu.ridge.problem import RidgeProblem
from pilu.ridge.spectrum import Spectrum

__all__ = ["KINDS", "Model", "arrays_of", "loss_of", "record_of", "restore_model"]

Model = LangevinRidge | LangevinRidgeClassifier | LangevinLogistic | LangevinHuber
Arrays = Mapping[str, NDArray[Any]]

_PER_OCTAVE = 4  # grid of errors: about forty deletions until the rows are summed again

KINDS: dict[str, type[Model]] = {
    "regression": LangevinRidge,
    "classification": LangevinRidgeClassifier,
    "logistic": LangevinLogistic,
    "huber": LangevinHuber,
}


def arrays_of(model: Model) -> Iterator[tuple[str, NDArray[Any]]]:
    """Arrays by name. The eigenbasis comes last: the others are written while it is computed."""
    fitted = model.fitted_
    chain, problem, source = fitted.chain, fitted.chain.problem, fitted.source
    if isinstance(problem, RidgeProblem):
        statistics = problem.statistics_before_spectrum
        if statistics is not None:
            yield "gram", statistics.gram
            yield "cross", statistics.cross
    yield "theta", chain.theta
    yield "start", chain.start
    yield "live", source.live
    yield "digests", source.digests
    if isinstance(problem, RidgeProblem):
        spectrum = problem.spectrum
        yield "eigenvalues", spectrum.eigenvalues
        yield "basis", spectrum.basis
        yield "spectral_cross", spectrum.cross


def record_of(model: Model) -> dict[str, Any]:
    """Everything else that a store keeps of a model, as plain numbers."""
    fitted = model.fitted_
    chain, problem = fitted.chain, fitted.chain.problem
    kind = next(name for name, kind in KINDS.items() if type(model) is kind)
    return {
        "kind": kind,
        "parameters": {**model.get_params(), "random_state": None},
        "n_features": int(model.n_features_in_),
        "step_size": chain.step_size,
        "schedule": [[segment.steps, segment.noise] for segment in chain.schedule.segments],
        "private": chain.private,
        "fit_intercept": fitted.source.fit_intercept,
        "alpha": problem.alpha,
        **_record_of_problem(problem),
        "auxiliary_seed": None if fitted.auxiliary is None else [*map(str, fitted.auxiliary.seed)],
        "spent": fitted.spent.record(),
        "certificates": list(fitted.certificates),
        "n_requests": fitted.n_requests,
        "classes": model.classes_.tolist() if hasattr(model, "classes_") else None,
    }


def loss_of(problem: Problem) -> dict[str, Any]:
    """The loss, as the log describes it."""
    if isinstance(problem, SmoothProblem):
        return problem.loss.describe()
    return {"name": "squared"}


def _record_of_problem(problem: Problem) -> dict[str, Any]:
    if isinstance(problem, SmoothProblem) and problem.n_batches == 1:
        return {"largest_curvature": problem.largest}
    if not isinstance(problem, RidgeProblem):
        raise WrongInput("batch_size must be None for a store, got mini-batches.")
    statistics, spectrum = problem.statistics, problem.spectrum
    summary = None
    if statistics is not None:
        summary = {
            "target_energy": statistics.target_energy,
            # Rounded up, which is safe: all digits would reveal the norm of the removed rows.
            "error": up_to_grid(statistics.error, _PER_OCTAVE) if statistics.error else 0.0,
        }
    return {
        "spectrum_seconds": spectrum.seconds,
        "target_norm": spectrum.target_norm,
        "statistics": summary,
    }


def restore_model(
    record: Mapping[str, Any], arrays: Arrays, key: bytes, *, latest: str | None
) -> Model:
    """The model, without its rows; `latest` is the hash of its last certificate."""
    try:
        return _restored(record, arrays, key, latest)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StoreDamaged(f"the store's state does not fit together: {error!r}.") from None


def _restored(record: Mapping[str, Any], arrays: Arrays, key: bytes, latest: str | None) -> Model:
    model = KINDS[record["kind"]](**record["parameters"])
    model.n_features_in_ = int(record["n_features"])
    n_outputs = int(arrays["theta"].shape[1])
    if isinstance(model, LangevinRegression):
        model._single_output = n_outputs == 1
    else:
        model.classes_ = np.array(record["classes"])
    fit_intercept = bool(record["fit_intercept"])
    source = RowSource(
        None, model.n_features_in_, fit_intercept, arrays["live"], arrays["digests"], key
    )
    problem: Problem
    if isinstance(model, LangevinLogistic | LangevinHuber):
        problem = SmoothProblem(
            source,
            float(record["alpha"]),
            source.n_rows,
            n_outputs,
            float(record["largest_curvature"]),
            model.make_loss(n_outputs),
        )
    else:
        problem = _restored_ridge(record, arrays, source)
    chain = Chain(
        problem,
        float(record["step_size"]),
        model._solver,
        arrays["start"],
        Schedule(tuple(Segment(int(k), float(s)) for k, s in record["schedule"])),
        arrays["theta"],
        bool(record["private"]),
    )
    model.fitted_ = Fitted(
        chain,
        RowBook(None, None, key),
        Spent.from_record(record["spent"]),
        tuple(record["certificates"]),
        int(record["n_requests"]),
        _restored_runs(model, record),
        latest=latest,
    )
    return model


def _restored_runs(model: Model, record: Mapping[str, Any]) -> AuxiliaryRuns | None:
    """The same seed for every command, until a row is forgotten."""
    if isinstance(model, LangevinLogistic | LangevinHuber):
        seed = tuple(int(part) for part in record["auxiliary_seed"])
        return AuxiliaryRuns(int(model.n_auxiliary_runs), seed)
    return None


def _restored_ridge(record: Mapping[str, Any], arrays: Arrays, source: RowSource) -> RidgeProblem:
    summary = record["statistics"]
    spectrum = Spectrum(
        arrays["eigenvalues"],
        arrays["basis"],
        arrays["spectral_cross"],
        float(record["alpha"]),
        float(record["spectrum_seconds"]),
        float(record["target_norm"]),
    )
    statistics = None
    if summary is not None:
        energy, error = float(summary["target_energy"]), float(summary["error"])
        statistics = Statistics(arrays["gram"], arrays["cross"], energy, error)
    return RidgeProblem.known(source, float(record["alpha"]), statistics, spectrum)
