"""scikit-learn's convex heads: their objectives in one form, and fitted heads from parameters.

Every head minimises  sum_i w_i l(x_i' coef + intercept, y_i) + alpha/2 |coef|^2  for its own loss,
weights and alpha. A head of this module says which; the solvers know nothing of scikit-learn.
docs/refit.md has the table of objectives.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import (
    GammaRegressor,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    TweedieRegressor,
)
from sklearn.preprocessing import LabelBinarizer
from sklearn.svm import LinearSVC
from sklearn.utils import column_or_1d
from sklearn.utils.class_weight import compute_sample_weight

from pilu.exceptions import WrongInput
from pilu.refit.head import Head, HeadProblem
from pilu.refit.head_inputs import (
    check_classes,
    check_every_class_has_weight,
    class_labels,
    class_weights,
    finite_targets,
    penalties,
    spread_of,
)
from pilu.refit.huber import HuberRidge
from pilu.refit.score_losses import (
    Huber,
    Logistic,
    Softmax,
    SquaredError,
    SquaredHinge,
    Tweedie,
)

Array = NDArray[np.float64]


class _RidgeHead(Head):
    """Ridge and RidgeCV."""

    def refusals(self, head: Any) -> list[str]:
        """`positive=True` has no closed objective here."""
        if getattr(head, "positive", False):
            return ["positive=True adds constraints. Set positive=False."]
        return []

    def problem(self, head: Any, y: NDArray[Any], weights: Array, chosen: Any) -> HeadProblem:
        """Squared error; alpha may be one for each target."""
        Y = finite_targets(y)
        released: dict[str, Any] = {"_one_target": np.ndim(y) == 1}
        if chosen is not None:
            released["alpha_"] = chosen if np.ndim(chosen) else float(chosen)
        candidates = _candidates(head, chosen)
        alpha = penalties("alpha", _alpha(head, chosen, candidates), Y.shape[1])
        return HeadProblem(
            SquaredError(),
            Y,
            weights,
            alpha,
            spread_of(Y, weights),
            released=released,
            candidates=candidates,
            per_target=bool(getattr(head, "alpha_per_target", False)) and Y.shape[1] > 1,
        )

    def release(self, head: Any, problem: HeadProblem, coef: Array, intercept: Array) -> Any:
        """Flat shapes for a single target."""
        released = dict(problem.released)
        flat = released.pop("_one_target")
        head.coef_ = np.ascontiguousarray(coef[:, 0] if flat else coef.T)
        head.intercept_ = intercept.copy()
        if flat or not head.fit_intercept:
            head.intercept_ = intercept[0]  # a NumPy scalar, as converters to ONNX expect
        for name, value in released.items():
            setattr(head, name, value)
        return head


class _RidgeClassifierHead(Head):
    """RidgeClassifier and RidgeClassifierCV: squared error on labels of -1 and 1."""

    def refusals(self, head: Any) -> list[str]:
        """As for Ridge."""
        return HEADS[Ridge].refusals(head)

    def problem(self, head: Any, y: NDArray[Any], weights: Array, chosen: Any) -> HeadProblem:
        """One column for two classes, else one for each."""
        y = class_labels(y)
        binarizer = LabelBinarizer(pos_label=1, neg_label=-1)
        Y = binarizer.fit_transform(y).astype(np.float64)
        classes = check_classes(head, binarizer.classes_)
        if head.class_weight:
            weights = weights * compute_sample_weight(head.class_weight, y)[:, None]
        released: dict[str, Any] = {"_label_binarizer": binarizer, "classes_": classes}
        if chosen is not None:
            released["alpha_"] = float(chosen)
        candidates = _candidates(head, chosen)
        return HeadProblem(
            SquaredError(),
            Y,
            weights,
            penalties("alpha", _alpha(head, chosen, candidates), 1),
            classes=classes,
            released=released,
            candidates=candidates,
        )

    def release(self, head: Any, problem: HeadProblem, coef: Array, intercept: Array) -> Any:
        """Flat coefficients for two classes."""
        head = super().release(head, problem, coef, intercept)
        if coef.shape[1] == 1:
            head.coef_ = coef[:, 0].copy()
        if not head.fit_intercept:
            head.intercept_ = 0.0
        return head


class _LogisticHead(Head):
    """LogisticRegression and LogisticRegressionCV."""

    def refusals(self, head: Any) -> list[str]:
        """Only the L2 penalty is smooth."""
        reasons = []
        ratios = getattr(head, "l1_ratios", None)
        l1 = getattr(head, "l1_ratio", 0.0)
        if ratios is not None and not isinstance(ratios, str):
            l1 = max(ratios)
        if head.penalty not in ("deprecated", "l2") or l1 not in (None, 0, 0.0):
            reasons.append(
                "only the L2 penalty is smooth enough to be certified. Leave penalty and l1_ratio "
                "at their defaults."
            )
        if isinstance(head, LogisticRegressionCV):
            if not head.refit:
                reasons.append("refit=False averages the fits of the folds. Set refit=True.")
        elif not (0 < head.C < math.inf):
            reasons.append(f"C must be positive and finite, got C={head.C!r}.")
        return reasons

    def problem(self, head: Any, y: NDArray[Any], weights: Array, chosen: Any) -> HeadProblem:
        """Logistic for two classes, softmax for more."""
        y = class_labels(y)
        classes = check_classes(head, np.unique(y))
        if head.fit_intercept and head.solver != "liblinear":
            check_every_class_has_weight(classes, y, weights)
        C = head.C if chosen is None else chosen
        if head.class_weight is not None:
            each = class_weights(head, classes, y, weights)
            weights = weights * each[np.searchsorted(classes, y)][:, None]
        released: dict[str, Any] = {"classes_": classes, "n_iter_": np.zeros(1, dtype=np.int32)}
        if chosen is not None:
            released |= _choice_of_c(head, float(chosen), classes)
        alpha = np.array([1.0 / C])
        if len(classes) > 2:
            if head.solver == "liblinear":
                raise WrongInput(
                    "solver must not be 'liblinear' for more than two classes, got "
                    f"{len(classes)} classes. Leave it at its default."
                )
            one_hot = (y[:, None] == classes).astype(np.float64)
            return HeadProblem(
                Softmax(), one_hot, weights, alpha, classes=classes, released=released
            )
        signs = np.where(y == classes[1], 1.0, -1.0)[:, None]
        scaling = _liblinear_scaling(head) if head.solver == "liblinear" else None
        return HeadProblem(
            Logistic(),
            signs,
            weights,
            alpha,
            classes=classes,
            penalised_scaling=scaling,
            released=released,
        )


class _SquaredHingeHead(Head):
    """LinearSVC."""

    def refusals(self, head: Any) -> list[str]:
        """Only the squared hinge is smooth."""
        reasons = []
        if head.loss != "squared_hinge":
            reasons.append(f"loss={head.loss!r} has a kink. Use loss='squared_hinge'.")
        if head.penalty != "l2":
            reasons.append(f"penalty={head.penalty!r} is not smooth. Use penalty='l2'.")
        if head.multi_class != "ovr":
            reasons.append(f"multi_class={head.multi_class!r} is not supported. Use 'ovr'.")
        if not (0 < head.C < math.inf):
            reasons.append(f"C must be positive and finite, got C={head.C!r}.")
        return reasons

    def problem(self, head: Any, y: NDArray[Any], weights: Array, chosen: Any) -> HeadProblem:
        """One problem for two classes, else one for each class against the rest.

        liblinear weighs the class itself, and not the rest, where there are more than two.
        """
        y = class_labels(y)
        classes = check_classes(head, np.unique(y))
        each = class_weights(head, classes, y, weights)
        if len(classes) == 2:
            signs = np.where(y == classes[1], 1.0, -1.0)[:, None]
            weights = weights * each[np.searchsorted(classes, y)][:, None]
        else:
            own = y[:, None] == classes
            signs = np.where(own, 1.0, -1.0)
            weights = weights * np.where(own, each, 1.0)
        return HeadProblem(
            SquaredHinge(),
            signs,
            weights,
            np.array([1.0 / head.C]),
            classes=classes,
            penalised_scaling=_liblinear_scaling(head),
            released={"classes_": classes, "n_iter_": 0},
        )

    def release(self, head: Any, problem: HeadProblem, coef: Array, intercept: Array) -> Any:
        """A plain zero without an intercept."""
        head = super().release(head, problem, coef, intercept)
        if not head.fit_intercept:
            head.intercept_ = 0.0
        return head


class _TweedieHead(Head):
    """PoissonRegressor, GammaRegressor and TweedieRegressor, with a log link."""

    def refusals(self, head: Any) -> list[str]:
        """The objective is convex for a log link and a power in [1, 2]."""
        reasons = []
        if not 1 <= self._power(head) <= 2:
            reasons.append(
                f"the objective is convex for a power in [1, 2], got power={head.power!r}. "
                "Use Ridge for a power of 0."
            )
        if getattr(head, "link", "log") not in ("auto", "log"):
            reasons.append(f"link={head.link!r} is not convex here. Use link='log'.")
        return reasons

    def problem(self, head: Any, y: NDArray[Any], weights: Array, chosen: Any) -> HeadProblem:
        """Half the deviance; scikit-learn's mean over rows becomes a sum."""
        power, targets = self._power(head), finite_targets(column_or_1d(y, warn=True))[:, 0]
        low = targets <= 0 if power == 2 else targets < 0
        if low.any():
            least = "positive" if power == 2 else "non-negative"
            raise WrongInput(
                f"y must be {least} for {type(head).__name__}, got {targets[low][0]:g}."
            )
        released = {"_base_loss": head._get_loss(), "n_iter_": 0}  # noqa: SLF001
        alpha = penalties("alpha", head.alpha, 1) * weights.sum()
        return HeadProblem(Tweedie(power), targets[:, None], weights, alpha, released=released)

    def release(self, head: Any, problem: HeadProblem, coef: Array, intercept: Array) -> Any:
        """Flat shapes."""
        head = super().release(head, problem, coef, intercept)
        head.coef_, head.intercept_ = coef[:, 0].copy(), intercept[0]
        return head

    @staticmethod
    def _power(head: Any) -> float:
        if isinstance(head, TweedieRegressor):
            return float(head.power)
        return 1.0 if isinstance(head, PoissonRegressor) else 2.0


class _HuberHead(Head):
    """pilu's own `HuberRidge`."""

    def refusals(self, head: Any) -> list[str]:
        """None: every parameter in range will do."""
        return []

    def problem(self, head: Any, y: NDArray[Any], weights: Array, chosen: Any) -> HeadProblem:
        """Huber's loss."""
        targets = finite_targets(column_or_1d(y, warn=True))
        return HeadProblem(
            Huber(float(head.threshold)),
            targets,
            weights,
            penalties("alpha", head.alpha, 1),
            spread_of(targets, weights),
        )

    def release(self, head: Any, problem: HeadProblem, coef: Array, intercept: Array) -> Any:
        """Flat shapes."""
        head.coef_, head.intercept_ = coef[:, 0].copy(), intercept[0]
        return head


HEADS: dict[type, Head] = {
    Ridge: _RidgeHead(),
    RidgeCV: _RidgeHead(),
    RidgeClassifier: _RidgeClassifierHead(),
    RidgeClassifierCV: _RidgeClassifierHead(),
    LogisticRegression: _LogisticHead(),
    LogisticRegressionCV: _LogisticHead(),
    LinearSVC: _SquaredHingeHead(),
    PoissonRegressor: _TweedieHead(),
    GammaRegressor: _TweedieHead(),
    TweedieRegressor: _TweedieHead(),
    HuberRidge: _HuberHead(),
}


def _candidates(head: Any, chosen: Any) -> Array | None:
    """The grid of RidgeCV or RidgeClassifierCV, if none of it is chosen yet."""
    if chosen is not None or not isinstance(head, RidgeCV | RidgeClassifierCV):
        return None
    alphas = np.atleast_1d(np.asarray(head.alphas, dtype=np.float64))
    if not ((alphas > 0) & (alphas < np.inf)).all():
        raise WrongInput(f"alphas must be positive for leave-one-out, got alphas={head.alphas!r}.")
    return alphas


def _alpha(head: Any, chosen: Any, candidates: Array | None) -> Any:
    if candidates is not None:
        return candidates[0]  # until one is chosen
    return head.alpha if chosen is None else chosen


def _choice_of_c(head: Any, C: float, classes: NDArray[Any]) -> dict[str, Any]:
    count = 1 if len(classes) == 2 else len(classes)
    grid = head.Cs if np.ndim(head.Cs) else np.logspace(-4, 4, int(head.Cs))
    legacy = getattr(head, "use_legacy_attributes", False)
    return {
        "C_": np.full(count, C) if legacy in (True, "warn") else C,
        "Cs_": np.asarray(grid, dtype=np.float64),
        "l1_ratio_": np.zeros(count) if legacy in (True, "warn") else 0.0,
    }


def _liblinear_scaling(head: Any) -> float | None:
    return float(head.intercept_scaling) if head.fit_intercept else None
