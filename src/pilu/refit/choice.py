"""Hyperparameters chosen on the rows that are left, from a cold start.

scikit-learn's own searches are run as they are: cold, on these rows, so that the choice is
a function of the rows.
"""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegressionCV, RidgeClassifierCV, RidgeCV
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline

from pilu.exceptions import WrongInput

Array = NDArray[np.float64]


def best_of_search(search: Any, X: Any, y: NDArray[Any], weights: Array | None, groups: Any) -> Any:
    """An unfitted clone of the search's estimator with its best parameters."""
    search = clone(search)
    refit, search.refit = search.refit, False
    search.cv = _splits(search.cv, X, y, groups, is_classifier(search.estimator))
    search.fit(X, y, **_weights_for(search.estimator, weights))
    results = {k: v for k, v in search.cv_results_.items() if not k.endswith("_time")}
    if callable(refit):
        try:
            best = refit(results)
        except KeyError as error:
            raise WrongInput(
                f"refit={refit!r} needs {error}. Results have no times here, because they are no "
                "function of the rows."
            ) from None
    else:
        metric = refit if isinstance(refit, str) else "score"
        best = int(np.argmin(results[f"rank_test_{metric}"]))
    return clone(search.estimator).set_params(**clone(results["params"][best], safe=False))


def choose_for_head(head: Any, X: Any, y: NDArray[Any], weights: Array | None, groups: Any) -> Any:
    """The alpha or C that a CV head selects by a search; None for other heads.

    Leave-one-out of ridge regression on dense rows is not a search: it needs the Gram matrix, which
    the solver needs too (`ridge_alpha.py`).
    """
    if isinstance(head, RidgeCV | RidgeClassifierCV):
        if head.cv is None and head.scoring is None and not sp.issparse(X):
            return None
        fitted = _cold(head, X, y, weights, groups)
        return fitted.alpha_
    if isinstance(head, LogisticRegressionCV):
        return float(np.ravel(_cold(head, X, y, weights, groups).C_)[0])
    return None


def _cold(head: Any, X: Any, y: NDArray[Any], weights: Array | None, groups: Any) -> Any:
    head = clone(head)
    if head.cv is not None or isinstance(head, LogisticRegressionCV):
        head.cv = _splits(head.cv, X, y, groups, is_classifier(head))
    return head.fit(X, y, **({} if weights is None else {"sample_weight": weights}))


def _splits(cv: Any, X: Any, y: NDArray[Any], groups: Any, classifier: bool) -> Any:
    """The splits of a splitter; those by group split by subject."""
    splitter = check_cv(cv, y, classifier=classifier)
    if "Group" in type(splitter).__name__ and groups is None:
        raise WrongInput(f"{type(splitter).__name__} splits by subject. Pass subjects=... to fit.")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The groups parameter is ignored")
        return list(splitter.split(X, y, groups))


def _weights_for(estimator: Any, weights: Array | None) -> dict[str, Array]:
    """Weights as a fit parameter of the head inside an estimator."""
    if weights is None:
        return {}
    if get_config()["enable_metadata_routing"]:
        return {"sample_weight": weights}
    name = ""
    while isinstance(estimator, Pipeline):
        step, estimator = estimator.steps[-1]
        name += f"{step}__"
    return {f"{name}sample_weight": weights}
