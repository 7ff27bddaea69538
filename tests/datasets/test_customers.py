"""The made-up customer table."""

import numpy as np
import pytest

from pilu.datasets import make_customers


def test_the_table_is_as_companies_have_them():
    X, y, subjects, numbers, categories = make_customers(2_000)
    assert len(X) == len(y) == len(subjects) == 2_000
    assert list(X.columns) == [*numbers, *categories]
    assert X["income"].isna().any()
    assert X["region"].nunique() == 16
    assert len(set(subjects)) < 700
    assert 0.1 < np.mean(y == "left") < 0.5
    again = make_customers(2_000)
    assert X.equals(again.X)
    assert not X.equals(make_customers(2_000, seed=1).X)


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="n_rows must be"):
        make_customers(3)
