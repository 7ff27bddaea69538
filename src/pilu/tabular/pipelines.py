"""The default pipeline for a table: plain scikit-learn, and a function of the rows alone.

Every model minimises, over coefficients theta of the transformed columns,

    sum_i w_i loss_i(theta) + alpha/2 |theta|^2

scikit-learn scales its penalties differently from model to model, so `alpha` is passed on as

| model | loss of a row, s = its score | intercept | passed to scikit-learn |
| --- | --- | --- | --- |
| ridge | (s - y)^2/2 | free | Ridge(alpha=alpha) |
| logistic | log(1 + exp(-ys)), softmax for more classes | free | LogisticRegression(C=1/alpha) |
| svm | max(0, 1 - ys)^2, each class against the rest | penalised | LinearSVC(C=1/alpha) |
| poisson | exp(s) - ys | free | PoissonRegressor(alpha=alpha/1000) |
| gamma | s + y exp(-s) | free | GammaRegressor(alpha=alpha/1000) |

Poisson and gamma regression take the mean over rows. With alpha/1000 the formula above holds at
a total weight of 1,000, and at a total weight of W the penalty is alpha W/1000. Dividing by the
number of rows instead would make the program depend on rows that are forgotten later.
"""

from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    GammaRegressor,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    RidgeCV,
)
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from pilu._checks import check_choice, check_real_or
from pilu.exceptions import WrongInput
from pilu.tabular.layout import Layout

MODELS = {
    "auto": "logistic for classes, ridge for numbers",
    "ridge": "numbers, by squared error",
    "poisson": "counts: numbers that are not negative, with a log link",
    "gamma": "positive numbers with errors in proportion, with a log link",
    "logistic": "classes, by logistic regression",
    "svm": "classes, by a linear support vector machine with the squared hinge",
}
ALPHAS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # what alpha="auto" chooses from
CHOICE_FOLDS = 3
RARE_LEVEL = 10  # rows; rarer levels of a category are pooled
MOST_LEVELS = 50  # of a category, the pooled one included
MOST_TERMS = 1_000  # of a column of words
ROWS_OF_A_MEAN = 1_000.0
# What skops has to be told to trust in a fitted program: parts of scikit-learn that it does not
# list, a type in the imputer and the splits of a model that chooses alpha.
SKOPS_TYPES = (
    "numpy.dtype",
    "sklearn.model_selection._split.GroupKFold",
    "sklearn.model_selection._split.KFold",
)

_BOUNDS = {"poisson": "non-negative", "gamma": "positive"}
_TASKS = {"logistic": "class", "svm": "class", "ridge": "number"} | dict.fromkeys(_BOUNDS, "number")
# A text without any word is a term itself, so that no vocabulary is ever empty.
_TERMS = r"(?u)\w+|^\W*$"


def task_for(model: str) -> str | None:
    """What a model predicts: "number" or "class"; None if the target decides."""
    return _TASKS.get(model)


def bound_for(model: str) -> str:
    """What a model asks of its targets, as in `Layout.bound`."""
    return _BOUNDS.get(model, "none")


def make_program(layout: Layout, *, model: str = "auto", alpha: float | str = 1.0) -> Pipeline:
    """An unfitted pipeline for the rows of `frame_of`.

    Numbers, booleans and dates: missing values become the median, a column flags where there were
    any, then all are scaled to mean 0 and variance 1. Categories: one column a level; levels in
    fewer than 10 rows, levels beyond the 49 most frequent, and levels that come later are pooled
    as one; a missing value is a level. Words: TF-IDF of the 1,000 most frequent words.

    Parameters
    ----------
    layout : Layout
    model : str
        A name of `MODELS`.
    alpha : float > 0 or "auto"
        The strength of the penalty; the module says what each model minimises. "auto" chooses
        0.1, 1, 10, 100 or 1000 on the rows that are there, by cross-validation in 3 folds that
        keep the rows of a person together. Ridge without subjects leaves out one row at a time.
    """
    model = _model(layout, model)
    check_real_or("auto", "alpha", alpha)
    return Pipeline([("columns", _columns(layout)), ("model", _head(layout, model, alpha))])


def _model(layout: Layout, model: str) -> str:
    """The name of the model, without "auto"."""
    check_choice("model", model, tuple(MODELS))
    if model == "auto":
        return "logistic" if layout.task == "class" else "ridge"
    if task_for(model) != layout.task or layout.bound not in ("none", bound_for(model)):
        needs = f"{_TASKS[model]}, {bound_for(model)}".removesuffix(", none")
        has = f"{layout.task}, {layout.bound}".removesuffix(", none")
        raise WrongInput(
            f"model must be one for the target of the layout ({has}), got model={model!r} "
            f"({needs}). Lay out the table for this model."
        )
    return model


def _columns(layout: Layout) -> ColumnTransformer:
    numbers, categories = layout.of("number", "boolean", "date"), layout.of("category")
    words = layout.of("words")
    steps: list[tuple[str, Any, Any]] = []
    if numbers:
        impute = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
        scaled = Pipeline([("impute", impute), ("scale", StandardScaler())])
        steps.append(("numbers", scaled, numbers))
    if categories:
        levels = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            min_frequency=RARE_LEVEL,
            max_categories=MOST_LEVELS,
            sparse_output=bool(words),
        )
        steps.append(("categories", levels, categories))
    for i, name in enumerate(words):
        terms = TfidfVectorizer(max_features=MOST_TERMS, token_pattern=_TERMS)
        steps.append((f"words {i + 1}", terms, name))
    # Dense rows are forgotten faster; words would make them a thousand columns wide.
    return ColumnTransformer(steps, sparse_threshold=1.0 if words else 0.0)


def _head(layout: Layout, model: str, alpha: float | str) -> Any:
    # Newton's method needs a dense matrix of columns by columns, which words make large.
    solver = {"solver": "lbfgs" if layout.of("words") else "newton-cholesky", "max_iter": 1_000}
    splits: Any = KFold(CHOICE_FOLDS, shuffle=True, random_state=0)
    if layout.subject is not None:
        splits = GroupKFold(CHOICE_FOLDS)
    if isinstance(alpha, str):
        if model == "ridge":
            leave_one_out = layout.subject is None and not layout.of("words")
            return RidgeCV(alphas=ALPHAS, cv=None if leave_one_out else splits)
        if model == "logistic":
            return _logistic_choice(splits, solver)
        strength, grid = ("C", [1 / a for a in ALPHAS])
        if model != "svm":
            strength, grid = "alpha", [a / ROWS_OF_A_MEAN for a in ALPHAS]
        return GridSearchCV(_plain(model, 1.0, solver), {strength: grid}, cv=splits)
    return _plain(model, float(alpha), solver)


def _plain(model: str, alpha: float, solver: dict[str, Any]) -> Any:
    """A model with a given penalty."""
    if model == "ridge":
        return Ridge(alpha=alpha)
    if model == "logistic":
        return LogisticRegression(C=1 / alpha, **solver)
    if model == "svm":
        return LinearSVC(C=1 / alpha, dual=False, max_iter=10_000, random_state=0)
    kind = PoissonRegressor if model == "poisson" else GammaRegressor
    return kind(alpha=alpha / ROWS_OF_A_MEAN, **solver)


def _logistic_choice(splits: Any, solver: dict[str, Any]) -> LogisticRegressionCV:
    # By log-loss, which needs no class to be in every fold. The last two options are newer than
    # the oldest scikit-learn that is supported, and keep newer ones from warning.
    newer = {"l1_ratios": (0.0,), "use_legacy_attributes": False}
    known = LogisticRegressionCV().get_params()
    newer = newer if "use_legacy_attributes" in known else {}
    grid = [1 / a for a in ALPHAS]
    return LogisticRegressionCV(Cs=grid, cv=splits, scoring="neg_log_loss", **solver, **newer)


def describe_program(layout: Layout, model: str, alpha: float | str) -> list[str]:
    """What the program does to which columns, in words: a line each."""
    model = _model(layout, model)
    check_real_or("auto", "alpha", alpha)
    labels = {"text": "text", "whole": "whole numbers", "boolean": "booleans"}
    target = "a number" if layout.labels is None else f"a class, {labels[layout.labels]}"
    lines = [f"target: {layout.target} ({target})"]
    for role in ("subject", "id", "weight"):
        name = getattr(layout, role)
        lines += [f"{role}: {name}"] if name is not None else []
    done = {
        "number": "missing values become the median and are flagged, then scaled",
        "boolean": "as numbers: 0 and 1",
        "date": "as numbers: days since 1970-01-01 UTC",
        "category": f"one column a level; levels in fewer than {RARE_LEVEL} rows and beyond the "
        f"{MOST_LEVELS - 1} most frequent are pooled; missing is a level",
        "words": f"TF-IDF of the {MOST_TERMS:,} most frequent words",
    }
    plural = {"number": "numbers", "boolean": "booleans", "date": "dates", "category": "categories"}
    for kind, what in done.items():
        if names := layout.of(kind):
            lines.append(f"{plural.get(kind, kind)}: {', '.join(names)} ({what})")
    lines += [f"left out: {name} ({why})" for name, why in layout.left_out.items()]
    return [*lines, f"model: {model} ({MODELS[model]}), {_penalty(layout, model, alpha)}"]


def _penalty(layout: Layout, model: str, alpha: float | str) -> str:
    per_rows = " per 1,000 rows" if model in _BOUNDS else ""
    if not isinstance(alpha, str):
        return f"penalty alpha = {alpha:g}{per_rows}"
    how = "the rows of a person together" if layout.subject is not None else "by row"
    listed = ", ".join(f"{a:g}" for a in ALPHAS)
    return f"penalty alpha chosen by cross-validation, {how}: {listed}{per_rows}"
