"""Which transformers are fixed beforehand: their fitted state does not depend on the rows.

Exposure compares a release with the release without a person. If all transformers are fixed, both
have the same ones. Otherwise the comparison takes them as given.
"""

from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
)

from pilu.refit.program import Prepared

_ROW_BY_ROW = (Binarizer, FeatureHasher, HashingVectorizer, Normalizer, PolynomialFeatures)


def covers_transformers(prepared: Prepared) -> bool:
    """Whether exposure covers the transformers: all are fixed, or folded into the coefficients."""
    return all(is_fixed(step) for _, step in prepared.released_transformers)


def is_fixed(step: Any) -> bool:
    """Whether a transformer's state is a function of its parameters and the column types alone."""
    if step is None or isinstance(step, str):  # "passthrough" or "drop"
        return True
    if isinstance(step, Pipeline):
        return all(is_fixed(part) for _, part in step.steps)
    if isinstance(step, FeatureUnion):
        return all(is_fixed(part) for _, part in step.transformer_list)
    if isinstance(step, ColumnTransformer):
        if any(callable(columns) for _, _, columns in step.transformers):
            return False
        parts = [part for _, part, _ in step.transformers]
        return all(is_fixed(part) for part in [*parts, step.remainder])
    if type(step) in (OneHotEncoder, OrdinalEncoder):
        listed = not isinstance(step.categories, str)
        pooled = step.min_frequency is not None or step.max_categories is not None
        return listed and not pooled and getattr(step, "drop", None) != "if_binary"
    if type(step) is SimpleImputer:
        return step.strategy == "constant" and step.keep_empty_features and not step.add_indicator
    if type(step) is FunctionTransformer:  # other functions may look at all rows
        return step.func is None or isinstance(step.func, np.ufunc)
    return type(step) in _ROW_BY_ROW
