"""The data sets of this study: the same columns and the same objective for every method.

Features are in units of rows that are set aside, which are neither learned nor tested. So no
method has to account for preprocessing. (Depth is standardised by its training part, as in
`experiments.linear`.) There is no intercept: a column of ones, penalised like the others, takes its
place, and rows that are classified have norm one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from experiments.linear import data as linear
from experiments.smooth import config as smooth_config
from experiments.smooth import data as smooth
from experiments.store import sha256_of_arrays
from pilu import LangevinLogistic, LangevinRidge
from pilu.datasets import make_customers

ALPHA = {"digits": 0.1, "cancer": 0.1, "diabetes": 100.0, "customers": 1.0, "depth": 1000.0}


@dataclass(frozen=True, eq=False)
class Case:
    """Rows to learn and to test; `people` names the person of each row to learn."""

    name: str
    alpha: float
    X: np.ndarray
    y: np.ndarray
    people: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def is_classification(self) -> bool:
        return self.y.dtype.kind != "f"

    @property
    def classes(self) -> np.ndarray:
        return np.unique(self.y)

    @property
    def n_parameters(self) -> int:
        n_classes = len(self.classes) if self.is_classification else 1
        return self.X.shape[1] * (n_classes if n_classes > 2 else 1)

    def head(self) -> Any:
        """scikit-learn's estimator of the objective, at a tolerance that nobody sees."""
        if not self.is_classification:
            return Ridge(alpha=self.alpha, fit_intercept=False)
        return LogisticRegression(C=1 / self.alpha, fit_intercept=False, tol=1e-8, max_iter=100_000)

    def chain(self, **options: Any) -> Any:
        """pilu's estimator of the same objective that learns by Langevin steps."""
        kind = LangevinLogistic if self.is_classification else LangevinRidge
        return kind(alpha=self.alpha, fit_intercept=False, **options)

    @property
    def measure(self) -> str:
        """Three customers of four stay, so that accuracy would hardly notice a model of noise."""
        if self.name == "customers":
            return "AUC"
        return "accuracy" if self.is_classification else "RMSE"

    def score(self, theta: np.ndarray) -> float:
        """The measure on the rows to test; theta has one column an output."""
        scores = self.X_test @ theta
        if self.measure == "AUC":
            return float(roc_auc_score(self.y_test, scores[:, 0]))
        if not self.is_classification:
            return float(np.sqrt(np.mean((scores[:, 0] - self.y_test) ** 2)))
        best = scores[:, 0] > 0 if theta.shape[1] == 1 else scores.argmax(axis=1)
        return float(np.mean(self.classes[best.astype(int)] == self.y_test))

    def constant(self) -> float:
        """The score of the most frequent class, or of the mean of the targets."""
        if self.measure == "AUC":
            return 0.5
        if not self.is_classification:
            return float(np.sqrt(np.mean((self.y.mean() - self.y_test) ** 2)))
        names, counts = np.unique(self.y, return_counts=True)
        return float(np.mean(self.y_test == names[counts.argmax()]))

    def provenance(self) -> dict[str, Any]:
        return {
            "rows": {"train": len(self.X), "test": len(self.X_test), "columns": self.X.shape[1]},
            "people": len(np.unique(self.people)),
            "sha256": sha256_of_arrays(self.X, self.y, self.X_test, self.y_test),
        }


def load(name: str, size: str, n_customers: int) -> Case:
    """A data set by its name."""
    if name in BUNDLED:
        return bundled(name, BUNDLED[name])
    if name == "customers":
        return customers(n_customers)
    if name == "depth":
        found = linear.load("depth", size)
        return rowwise(name, ALPHA[name], found)
    return rowwise(name, smooth_config.STUDIES[size][name].alpha, smooth.load(name, size))


def rowwise(name: str, alpha: float, found: Any) -> Case:
    """Every row is a person."""
    people = np.arange(len(found.X))
    return Case(name, alpha, found.X, found.y, people, found.X_test, found.y_test)


BUNDLED = {"digits": load_digits, "cancer": load_breast_cancer, "diabetes": load_diabetes}


def bundled(name: str, load: Callable[..., Any]) -> Case:
    X, y = load(return_X_y=True)
    train, aside, test = shared_out(len(X))
    regression = name == "diabetes"
    if regression:
        y = (y - y[aside].mean()) / y[aside].std()
    Z = scaled(X, X[aside], unit=not regression)
    return Case(name, ALPHA[name], Z[train], y[train], np.arange(len(train)), Z[test], y[test])


def shared_out(n: int) -> list[np.ndarray]:
    """60 % to learn, 15 % set aside, the rest to test, by a fixed permutation."""
    order = np.random.default_rng(0).permutation(n)
    return np.split(order, [round(0.6 * n), round(0.6 * n) + round(0.15 * n)])


def scaled(values: np.ndarray, aside: np.ndarray, *, unit: bool) -> np.ndarray:
    """In units of the rows that are set aside, with a last column of ones."""
    mean, deviation = aside.mean(axis=0), aside.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    found = np.hstack([(values - mean) / deviation, np.ones((len(values), 1))])
    return found / np.linalg.norm(found, axis=1, keepdims=True) if unit else found


def customers(n_rows: int) -> Case:
    """Customers with one to several rows each; whole people are learned, set aside or tested."""
    X, y, people, numbers, categories = make_customers(n_rows)
    names = np.unique(people)
    train, aside, test = (np.isin(people, names[part]) for part in shared_out(len(names)))
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), list(numbers)),
        (OneHotEncoder(sparse_output=False, handle_unknown="ignore"), list(categories)),
    ).fit(X[aside])
    Z = columns.transform(X)
    Z = scaled(Z, Z[aside], unit=True)
    labels = (y == "stayed").astype(int)
    alpha = ALPHA["customers"]
    return Case("customers", alpha, Z[train], labels[train], people[train], Z[test], labels[test])
