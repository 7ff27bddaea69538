"""Tables of people in plain Python, and models of them by scikit-learn alone."""

import csv
import math
from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

CITIES = ("Basel", "Chur", "Davos")
WORDS = ("good", "bad", "late", "lost", "fine", "again", "never", "quick")


def make_rows(n, seed=0, *, first=0, people=None, target="class", rows_each=2):
    """Rows as dictionaries; numbers with few digits, so that a CSV keeps them."""
    rng = np.random.default_rng([seed, first])
    rows = []
    for i in range(first, first + n):
        age, income = int(rng.integers(18, 80)), round(float(rng.normal(3, 1)), 4)
        score = 0.05 * (age - 45) + income - 3 + rng.normal()
        rows.append(
            {
                "row": f"row {i}",
                "person": f"person {i // rows_each}" if people is None else people[i - first],
                "age": age,
                "income": None if rng.random() < 0.1 else income,
                "since": date(2020, 1, 1 + int(rng.integers(28))),
                "city": None if rng.random() < 0.1 else str(rng.choice(CITIES)),
                "said": " ".join(rng.choice(WORDS, size=4)) + f" {i}",
                "weight": round(float(rng.uniform(0.5, 2)), 2),
                "y": ("yes" if score > 0 else "no") if target == "class" else round(score, 3),
            }
        )
    return rows


def write(rows, path, leave_out=()):
    """Write rows as CSV or Parquet, by the ending of the path."""
    names = [name for name in rows[0] if name not in leave_out]
    if path.suffix == ".parquet":
        table = pa.table({name: [row[name] for row in rows] for name in names})
        pyarrow.parquet.write_table(table, path)
        return path
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def frame(rows):
    """Features as floats and texts."""
    days = [(row["since"] - date(1970, 1, 1)).days for row in rows]
    return pd.DataFrame(
        {
            "age": [float(row["age"]) for row in rows],
            "income": [math.nan if row["income"] is None else row["income"] for row in rows],
            "since": [float(day) for day in days],
            "city": pd.Series([row["city"] for row in rows], dtype=object),
            "said": pd.Series([row["said"] for row in rows], dtype=object),
        }
    )


def plain_model(*, words, target, alpha=1.0):
    """What docs/refit.md says that the default pipeline is, unfitted."""
    numbers = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
        StandardScaler(),
    )
    levels = OneHotEncoder(
        handle_unknown="infrequent_if_exist", min_frequency=10, max_categories=50
    )
    parts = [("n", numbers, ["age", "income", "since"]), ("c", levels, ["city"])]
    if words:
        terms = TfidfVectorizer(max_features=1_000, token_pattern=r"(?u)\w+|^\W*$")
        parts.append(("w", terms, "said"))
    head = Ridge(alpha=alpha, solver="lsqr", tol=1e-10)
    if target == "class":
        head = LogisticRegression(C=1 / alpha, tol=1e-9, max_iter=5_000)
    return make_pipeline(ColumnTransformer(parts), head)


def plain_scores(rows, at, *, words=True, target="class", weighted=False):
    """Scores at some rows of a model that scikit-learn fitted from scratch."""
    model = plain_model(words=words, target=target)
    kind = type(model[-1]).__name__.lower()
    weights = {f"{kind}__sample_weight": [row["weight"] for row in rows]} if weighted else {}
    y = np.array([row["y"] for row in rows])
    model.fit(frame(rows), y, **weights)
    if target != "class":
        return model.predict(frame(at)) / y.std()
    return model.decision_function(frame(at))


def desk_scores(desk, at, folder, *, target="class", spread=1.0, leave_out=()):
    """The same by the desk, from a table to a file."""
    table, out = write(at, folder / "to predict.csv", leave_out), folder / "predicted.csv"
    desk.predict_table(table, out, probabilities=target == "class")
    with out.open() as file:
        lines = list(csv.DictReader(file))
    if target != "class":
        return np.array([float(line["y"]) for line in lines]) / spread
    yes, no = (
        np.array([float(line[f"probability of {c}"]) for line in lines]) for c in ("yes", "no")
    )
    return np.log(yes / no)
