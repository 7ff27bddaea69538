"""A whole pipeline forgets a customer: what moves, next to a fit that never had them."""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from pilu import Forgetful
from pilu.datasets import make_customers

PERSON = "c00042"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("pipeline-output"))
    parser.add_argument("--rows", type=int, default=1_000)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    X, y, people, numbers, categories = make_customers(options.rows)
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), list(numbers)),
        (OneHotEncoder(handle_unknown="ignore"), list(categories)),
    )
    pipeline = make_pipeline(columns, LogisticRegression(tol=1e-10, max_iter=10_000))
    left = people != PERSON
    never = clone(pipeline).fit(X[left], y[left])  # what the law asks for: as if they had not been

    model = Forgetful(pipeline, random_state=0).fit(X, y, subjects=people)
    before = model.decision_function(X)
    certificate = model.unlearn(subject=PERSON)
    after = model.decision_function(X)
    retrained = never.decision_function(X)
    print(f"{PERSON} is forgotten: epsilon {certificate.epsilon}, delta {certificate.delta}")
    print(f"scores moved by up to {np.abs(after - before).max():.3f} for {PERSON} to be forgotten")
    print(f"and are within {np.abs(after - retrained).max():.4f} of a fit without {PERSON}")

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.axhline(0, color="0.7", lw=1)
    for scores, label, colour in (
        (before, "before the request", "#b0563b"),
        (after, "after it", "#2f6690"),
    ):
        gap = scores - retrained
        axes.plot(retrained[left], gap[left], ".", ms=3, color=colour, label=label)
        axes.plot(retrained[~left], gap[~left], "o", ms=7, mfc="none", color=colour)
    axes.plot([], [], "o", ms=7, mfc="none", color="0.3", label=f"rows of {PERSON}")
    axes.set_xlabel("log-odds by a fit that never had the customer")
    axes.set_ylabel("difference to it")
    axes.set_title(f"{len(X):,} rows of customers, epsilon = {certificate.epsilon:g}", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(options.out / "pipeline.png", dpi=110)
    print(f"wrote {options.out / 'pipeline.png'}")


if __name__ == "__main__":
    main()
