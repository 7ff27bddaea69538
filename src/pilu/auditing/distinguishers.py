"""Distinguishers: from runs of two kinds to a score that is higher for the first kind.

They are trained on some runs and applied to others, never to those that they have seen.
"""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from pilu._checks import check_integer, complaint
from pilu.exceptions import WrongInput

Array = NDArray[np.float64]
Score = Callable[[Array], Array]

_FOLDS = 5


class Distinguisher(Protocol):
    """A way to distinguish runs.

    `fit` must depend on its arguments alone, not on earlier fits. A score must depend on its run
    alone, not on the others in the same call.
    """

    @property
    def name(self) -> str:
        """The name in reports."""
        ...

    @property
    def learns(self) -> bool:
        """Whether the score depends on the runs."""
        ...

    def fit(self, unlearned: Array, retrained: Array, seed: int) -> Score:
        """A score, higher for unlearned runs."""
        ...


@dataclass(frozen=True)
class Logistic:
    """Logistic regression on standardised outputs."""

    C: float = 1.0
    name: str = "logistic"
    learns: bool = True

    def fit(self, unlearned: Array, retrained: Array, seed: int) -> Score:
        """Maximum likelihood with scikit-learn's l2 penalty 1/C."""
        pipeline = _fitted(LogisticRegression(C=self.C, max_iter=2000), unlearned, retrained)
        return lambda outputs: np.asarray(pipeline.decision_function(outputs))


@dataclass(frozen=True)
class MLP:
    """Two hidden layers with Tanh activations on standardised outputs."""

    width: int = 32
    l2: float = 1e-2
    name: str = "mlp"
    learns: bool = True

    def fit(self, unlearned: Array, retrained: Array, seed: int) -> Score:
        """Trained by L-BFGS, which needs no tuning at this size."""
        width = check_integer("width", self.width, least=1)
        network = MLPClassifier(
            (width, width),
            activation="tanh",
            solver="lbfgs",
            alpha=self.l2,
            max_iter=200,
            random_state=seed % 2**32,
        )
        pipeline = _fitted(network, unlearned, retrained)

        def log_odds(outputs: Array) -> Array:
            # Before the last activation: probabilities saturate, and ties leave no threshold.
            signal = pipeline[:-1].transform(outputs)
            layers = list(zip(network.coefs_, network.intercepts_, strict=True))
            for weight, bias in layers[:-1]:
                signal = np.tanh(signal @ weight + bias)
            weight, bias = layers[-1]
            return np.asarray((signal @ weight + bias)[:, 0])

        return log_odds


@dataclass(frozen=True)
class Known:
    """A score that was known beforehand, such as a likelihood ratio."""

    score: Score
    name: str = "known"
    learns: bool = False

    def fit(self, unlearned: Array, retrained: Array, seed: int) -> Score:
        """The score itself."""
        return self.score


_BY_NAME: dict[str, Distinguisher] = {"logistic": Logistic(), "mlp": MLP()}


def resolve_distinguisher(distinguisher: "str | Distinguisher") -> Distinguisher:
    """A distinguisher given by name or as an object."""
    if isinstance(distinguisher, str) and distinguisher in _BY_NAME:
        return _BY_NAME[distinguisher]
    has_all = all(hasattr(distinguisher, part) for part in ("fit", "learns", "name"))
    if has_all and not isinstance(distinguisher, str | type):
        return distinguisher
    names = ", ".join(map(repr, _BY_NAME))
    raise complaint(
        "distinguisher", f"one of {names} or an object with fit, learns and name", distinguisher
    )


def scored(score: Score, runs: Array) -> Array:
    """The scores of some runs, one finite number each."""
    scores = np.asarray(score(runs), dtype=np.float64)
    if scores.shape != (len(runs),):
        raise WrongInput(
            f"a distinguisher's score must be one number for each run, of shape ({len(runs)},), "
            f"got shape {scores.shape}."
        )
    if not np.isfinite(scores).all():
        raise WrongInput(
            "a distinguisher's scores must be finite, got one that is not. Use another "
            "distinguisher."
        )
    return scores


def cross_scores(
    distinguisher: Distinguisher, unlearned: Array, retrained: Array, seed: int
) -> tuple[Array, Array]:
    """Scores of all runs, each by a distinguisher that was trained on others."""
    if not distinguisher.learns:
        score = distinguisher.fit(unlearned, retrained, seed)
        return scored(score, unlearned), scored(score, retrained)
    runs = np.concatenate([unlearned, retrained])
    kinds = np.repeat([1, 0], [len(unlearned), len(retrained)])
    folds = min(_FOLDS, len(unlearned), len(retrained))
    scores = np.empty(len(runs))
    splits = StratifiedKFold(folds, shuffle=True, random_state=seed % 2**32)
    for known, left in splits.split(runs, kinds):
        seen, kind = runs[known], kinds[known]
        # A copy: nothing that one fit leaves behind may reach the next.
        score = copy.deepcopy(distinguisher).fit(seen[kind == 1], seen[kind == 0], seed)
        scores[left] = scored(score, runs[left])
    return scores[kinds == 1], scores[kinds == 0]


def _fitted(classifier: Any, unlearned: Array, retrained: Array) -> Any:
    pipeline = make_pipeline(StandardScaler(), classifier)
    kinds = np.repeat([1, 0], [len(unlearned), len(retrained)])
    with warnings.catch_warnings():  # one that could be a little better is still valid
        warnings.simplefilter("ignore", ConvergenceWarning)
        with threadpool_limits(1):  # matrices this small are slower on several threads
            pipeline.fit(np.concatenate([unlearned, retrained]), kinds)
    return pipeline
