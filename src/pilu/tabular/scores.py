"""How good a model is on rows that it has not seen, next to what a constant would get."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.linear_model import GammaRegressor, PoissonRegressor
from sklearn.metrics import accuracy_score, d2_tweedie_score, r2_score, roc_auc_score
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.pipeline import Pipeline

from pilu._checks import check_integer
from pilu._digits import near
from pilu.exceptions import WrongInput
from pilu.tabular.frames import Frame
from pilu.tabular.layout import Layout

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

_AUC, _ACCURACY, _R2, _D2 = "ROC AUC", "accuracy", "R2", "D2"


@dataclass(frozen=True)
class Score:
    """A metric on rows that were held out.

    Attributes
    ----------
    metric : str
        "ROC AUC" for two classes, "accuracy" for more, "R2" for numbers, "D2" for poisson and
        gamma.
    value, spread : float
        Mean and standard deviation over folds; NaN where fewer than two folds could be scored.
    constant : float
        What a constant gets: 0.5, the share of the largest class, or 0.
    higher_is_better : bool
        True for all of these.
    how : str
        How it was measured, in words.
    folds : int
        Folds that could be scored.
    """

    metric: str
    value: float
    constant: float
    spread: float
    higher_is_better: bool
    how: str
    folds: int

    def is_useful(self) -> bool:
        """Whether the model is clearly better than a constant.

        It is if the value is above the constant by more than two standard errors,
        2 spread/sqrt(folds). False where it could not be measured.
        """
        gain = self.value - self.constant
        gain = gain if self.higher_is_better else -gain
        return self.folds >= 2 and gain > 2 * self.spread / math.sqrt(self.folds)

    @property
    def words(self) -> str:
        """The score in a sentence."""
        if self.folds < 2:
            return f"{self.metric} could not be measured: too few rows in some folds, {self.how}."
        clearly = "clearly better" if self.is_useful() else "not clearly better"
        return (
            f"{self.metric} {near(self.value, 3)} +- {near(self.spread, 2)} over {self.folds} "
            f"folds, {clearly} than a constant ({near(self.constant, 3)}), {self.how}."
        )


def cross_validated(estimator: Any, frame: Frame, layout: Layout, *, folds: int = 5) -> Score:
    """The score of an estimator on folds that it was not fitted to.

    With subjects, all rows of a person are in the same fold. There are fewer folds where there are
    fewer people. A fold is left out if it has no score: ROC AUC needs two classes, R2 two rows.

    Parameters
    ----------
    estimator : estimator
        Unfitted. A search inside is run on the training rows of each fold, by person.
    frame : Frame
        With targets.
    layout : Layout
    folds : int >= 2, default=5
    """
    check_integer("folds", folds, least=2)
    if frame.y is None:
        raise WrongInput("frame must have targets. Make it by frame_of(table, layout).")
    y, weights, groups = frame.y, frame.weights, _codes(frame.subjects)
    count = len(y) if groups is None else int(groups.max()) + 1
    if count < 2:
        raise WrongInput(f"frame must have at least 2 rows and 2 people, got {count}.")
    n_folds = min(folds, count)
    metric = _metric(estimator, len(np.unique(y)) if layout.task == "class" else 0)
    values = []
    for train, test in _splits(n_folds, y, groups, layout.task):
        if _can_learn(y[train], layout):
            fitted = _fit(estimator, frame, groups, train)
            w = None if weights is None else weights[test]
            values.append(_measure(metric, fitted, frame.X.iloc[test], y[test], w))
    scored = [value for value in values if not math.isnan(value)]
    enough = len(scored) >= 2
    who = "each person in one fold" if groups is not None else "by row"
    return Score(
        metric,
        float(np.mean(scored)) if enough else math.nan,
        _constant(metric, y, weights),
        float(np.std(scored, ddof=1)) if enough else math.nan,
        True,
        f"{n_folds}-fold cross-validation, {who}",
        len(scored),
    )


def score_of(fitted: Any, X: Any, y: Any, *, weights: Any = None) -> tuple[str, float]:
    """The metric of a fitted pipeline and its value on given rows; NaN where it has none."""
    classes = len(fitted.classes_) if is_classifier(fitted) else 0
    metric = _metric(fitted, classes)
    w = None if weights is None else np.asarray(weights, dtype=np.float64)
    return metric, _measure(metric, fitted, X, np.asarray(y), w)


def _metric(estimator: Any, n_classes: int) -> str:
    if n_classes:
        return _AUC if n_classes == 2 else _ACCURACY
    return _R2 if _power(estimator) is None else _D2


def _power(estimator: Any) -> int | None:
    """The power of the deviance that a head minimises; None for squares."""
    while isinstance(estimator, Pipeline) or hasattr(estimator, "param_grid"):
        inside = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator.estimator
        estimator = inside
    return {PoissonRegressor: 1, GammaRegressor: 2}.get(type(estimator))


def _measure(metric: str, fitted: Any, X: Any, y: NDArray[Any], weights: Array | None) -> float:
    """The metric on given rows; NaN where it is not defined."""
    used = np.ones(len(y), dtype=bool) if weights is None else weights > 0
    different = len(np.unique(y[used]))
    if used.sum() < (1 if metric == _ACCURACY else 2) or (metric != _ACCURACY and different < 2):
        return math.nan
    if metric == _AUC:
        is_second = y == fitted.classes_[1]
        return float(roc_auc_score(is_second, fitted.decision_function(X), sample_weight=weights))
    predicted = fitted.predict(X)
    if metric == _ACCURACY:
        return float(accuracy_score(y, predicted, sample_weight=weights))
    if metric == _R2:
        return float(r2_score(y, predicted, sample_weight=weights))
    positive = np.maximum(predicted, np.finfo(np.float64).tiny)  # exp(s) may underflow
    power = _power(fitted)
    return float(d2_tweedie_score(y, positive, sample_weight=weights, power=power))


def _constant(metric: str, y: NDArray[Any], weights: Array | None) -> float:
    """What the best constant gets."""
    if metric == _ACCURACY:
        _, codes = np.unique(y, return_inverse=True)
        shares = np.bincount(codes, weights=weights)
        return float(shares.max() / shares.sum())
    return 0.5 if metric == _AUC else 0.0


def _fit(estimator: Any, frame: Frame, groups: Rows | None, train: Rows) -> Any:
    """A clone of the estimator, fitted to some rows."""
    assert frame.y is not None
    model, X, y = clone(estimator), frame.X.iloc[train], frame.y[train]
    head, prefix = model, ""
    while isinstance(head, Pipeline):
        prefix += f"{head.steps[-1][0]}__"
        head = head.steps[-1][1]
    splitter: Any = getattr(head, "cv", None)
    if "Group" in type(splitter).__name__ and groups is not None:  # no other way to pass groups
        head.cv = list(splitter.split(X, y, groups[train]))
    if frame.weights is None:
        return model.fit(X, y)
    return model.fit(X, y, **{f"{prefix}sample_weight": frame.weights[train]})


def _splits(n_folds: int, y: NDArray[Any], groups: Rows | None, task: str) -> Any:
    """Pairs of training and test rows."""
    if groups is not None:
        return GroupKFold(n_folds).split(y, groups=groups)
    if task == "class" and np.unique(y, return_counts=True)[1].min() >= n_folds:
        return StratifiedKFold(n_folds, shuffle=True, random_state=0).split(y, y)
    return KFold(n_folds, shuffle=True, random_state=0).split(y)


def _can_learn(y: NDArray[Any], layout: Layout) -> bool:
    """Whether targets have two classes, or a mean that has a logarithm where one is needed."""
    if layout.task == "class":
        return len(np.unique(y)) > 1
    return layout.bound == "none" or bool(y.any())


def _codes(subjects: list[str] | None) -> Rows | None:
    """A number for each person."""
    if subjects is None:
        return None
    numbers: dict[str, int] = {}
    codes = [numbers.setdefault(name, len(numbers)) for name in subjects]
    return np.array(codes, dtype=np.intp)
