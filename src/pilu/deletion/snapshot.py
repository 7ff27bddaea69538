"""A fitted estimator as plain numbers and arrays, and back: what a store keeps of it.

Kept are statistics, eigenbasis, parameters, keyed digests of the rows that are left, the schedule
and the running total. Rows, names, seeds and evidence are not.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.coarse import up_to_grid
from pilu.accounting.composition import Spent
from pilu.dynamics.chain import Chain
from pilu.dynamics.schedule import Schedule, Segment
from pilu.estimators.fitted import Fitted
from pilu.estimators.requests import RowBook
from pilu.estimators.ridge import LangevinRidge, LangevinRidgeClassifier
from pilu.exceptions import StoreDamaged
from pilu.ridge.problem import RidgeProblem
from pilu.ridge.rows import RowSource
from pilu.ridge.spectrum import Spectrum
from pilu.ridge.statistics import Statistics

__all__ = ["Model", "arrays_of", "record_of", "restored"]

Model = LangevinRidge | LangevinRidgeClassifier
Arrays = Mapping[str, NDArray[Any]]

_PER_OCTAVE = 4  # for errors: forty deletions or so until the rows are summed anew

_KINDS: dict[str, type[Model]] = {
    "regression": LangevinRidge,
    "classification": LangevinRidgeClassifier,
}


def arrays_of(model: Model) -> Iterator[tuple[str, NDArray[Any]]]:
    """Arrays by name, the new eigenbasis last: the others can be on their way to the disk then."""
    fitted = model._fitted
    chain, problem, source = fitted.chain, fitted.chain.problem, fitted.source
    assert isinstance(problem, RidgeProblem)
    statistics = problem.statistics_before_spectrum
    if statistics is not None:
        yield "gram", statistics.gram
        yield "cross", statistics.cross
    yield "theta", chain.theta
    yield "start", chain.start
    yield "live", source.live
    yield "digests", source.digests
    spectrum = problem.spectrum
    yield "eigenvalues", spectrum.eigenvalues
    yield "basis", spectrum.basis
    yield "spectral_cross", spectrum.cross


def record_of(model: Model) -> dict[str, Any]:
    """All else of a model that outlives the process, as plain numbers."""
    fitted = model._fitted
    chain, problem = fitted.chain, fitted.chain.problem
    if not isinstance(problem, RidgeProblem):
        raise ValueError("batch_size must be None for a store, got mini-batches.")
    statistics, spectrum = problem.statistics, problem.spectrum
    is_classifier = isinstance(model, LangevinRidgeClassifier)
    return {
        "kind": "classification" if is_classifier else "regression",
        "parameters": {**model.get_params(), "random_state": None},
        "n_features": int(model.n_features_in_),
        "step_size": chain.step_size,
        "schedule": [[segment.steps, segment.noise] for segment in chain.schedule.segments],
        "private": chain.private,
        "fit_intercept": fitted.source.fit_intercept,
        "alpha": spectrum.alpha,
        "spectrum_seconds": spectrum.seconds,
        "target_norm": spectrum.target_norm,
        "statistics": None
        if statistics is None
        else {
            "target_energy": statistics.target_energy,
            # More error is the safe side; all its digits would tell the norm of the rows taken out.
            "error": up_to_grid(statistics.error, _PER_OCTAVE) if statistics.error else 0.0,
        },
        "spent": fitted.spent.record(),
        "certificates": list(fitted.certificates),
        "n_requests": fitted.n_requests,
        "classes": model.classes_.tolist() if is_classifier else None,
    }


def restored(record: Mapping[str, Any], arrays: Arrays, key: bytes) -> Model:
    """The model of a snapshot, without its rows."""
    try:
        return _restored(record, arrays, key)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StoreDamaged(f"the store's state does not fit together: {error!r}.") from None


def _restored(record: Mapping[str, Any], arrays: Arrays, key: bytes) -> Model:
    told = record["statistics"]
    spectrum = Spectrum(
        arrays["eigenvalues"],
        arrays["basis"],
        arrays["spectral_cross"],
        float(record["alpha"]),
        float(record["spectrum_seconds"]),
        float(record["target_norm"]),
    )
    statistics = (
        None
        if told is None
        else Statistics(
            arrays["gram"], arrays["cross"], float(told["target_energy"]), float(told["error"])
        )
    )
    source = RowSource(
        None, None, bool(record["fit_intercept"]), arrays["live"], arrays["digests"], key
    )
    chain = Chain(
        RidgeProblem.known(source, float(record["alpha"]), statistics, spectrum),
        float(record["step_size"]),
        "spectral",
        arrays["start"],
        Schedule(tuple(Segment(int(k), float(s)) for k, s in record["schedule"])),
        arrays["theta"],
        bool(record["private"]),
    )
    model = _KINDS[record["kind"]](**record["parameters"])
    model.n_features_in_ = int(record["n_features"])
    if isinstance(model, LangevinRidge):
        model._single_output = arrays["theta"].shape[1] == 1
    else:
        model.classes_ = np.array(record["classes"])
    model._fitted = Fitted(
        chain,
        RowBook(None, None, key),
        Spent.from_record(record["spent"]),
        tuple(record["certificates"]),
        int(record["n_requests"]),
    )
    return model
