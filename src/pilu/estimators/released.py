"""What a fitted `Forgetful` released: its predictions, attributes, tags and certificate."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pilu.certify.certificate import Certificate
from pilu.estimators.refitted import Refitted, verify_latest
from pilu.refit.program import head_of


def released_has(name: str) -> Callable[[Any], bool]:
    """A check for `available_if`: whether the released estimator has a method."""

    def check(model: Any) -> bool:
        fitted = "fitted_" in model.__dict__
        getattr(model.fitted_.released if fitted else model.estimator, name)
        return True

    return check


class ReleasedModel(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts with the released estimator, and shows its fitted attributes."""

    estimator: Any
    fitted_: Refitted

    def __getstate__(self) -> dict[str, Any]:
        # An estimator that was fitted outside would carry its parameters into the pickle.
        return {**super().__getstate__(), "estimator": clone(self.estimator, safe=False)}

    def __sklearn_is_fitted__(self) -> bool:
        return "fitted_" in self.__dict__

    @property
    def released_(self) -> Any:
        """The released estimator."""
        check_is_fitted(self)
        return self.fitted_.released

    @property
    def remaining_(self) -> NDArray[np.intp]:
        """Numbers of the rows that are not forgotten."""
        check_is_fitted(self)
        return np.flatnonzero(self.fitted_.live)

    def __getattr__(self, name: str) -> Any:
        """Fitted attributes of the released estimator, or of its head."""
        public = name == "named_steps" or (name.endswith("_") and not name.startswith("_"))
        if not public:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if "fitted_" not in self.__dict__:  # NotFittedError is an AttributeError, too
            raise NotFittedError(f"this {type(self).__name__} has no {name} before fit. Call fit.")
        released = self.fitted_.released
        return getattr(released if hasattr(released, name) else head_of(released), name)

    @available_if(released_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> Any:
        """Predict with the released estimator."""
        check_is_fitted(self)
        return self.released_.predict(X)

    @available_if(released_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Class probabilities of the released estimator."""
        check_is_fitted(self)
        return self.released_.predict_proba(X)

    @available_if(released_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of the class probabilities."""
        check_is_fitted(self)
        return self.released_.predict_log_proba(X)

    @available_if(released_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Scores of the released estimator."""
        check_is_fitted(self)
        return self.released_.decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score of the released estimator."""
        check_is_fitted(self)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(self.released_.score(X, y, **weights))

    def verify(self, certificate: Certificate) -> dict[str, bool]:
        """Check a certificate, and that it is the one of this release; see also `pilu.verify`.

        Raises
        ------
        CertificateMismatch
            If a number is wrong, or the certificate belongs to another release.
        """
        check_is_fitted(self)
        return verify_latest(self.fitted_, certificate)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.estimator.__sklearn_tags__()
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags, tags.input_tags = inner.target_tags, inner.input_tags
        return tags

    @property
    def noise_scale_(self) -> float | None:
        """The scale of shaped noise; None if the noise is not shaped."""
        check_is_fitted(self)
        return self.fitted_.noise_scale

    @property
    def noise_penalty_(self) -> float | None:
        """The factor f of the penalties in the shape of the noise; None if it is not shaped."""
        return None if self.noise_scale_ is None else self.fitted_.penalty_factor
