"""Who is exposed by a model of customers, and what a cap costs: two pictures."""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from pilu import Forgetful
from pilu.datasets import make_customers
from pilu.plotting import plot_exposure, plot_exposure_plan

SHARE = 0.99  # of the people for whom the cap has to hold


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--out", type=Path, default=Path("exposure-output"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    X, y, people, numbers, categories = make_customers(options.rows)
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), list(numbers)),
        (OneHotEncoder(handle_unknown="ignore"), list(categories)),
    )
    pipeline = make_pipeline(columns, LogisticRegression(C=1.0))
    learned = slice(0, 3 * len(X) // 4)
    held_out = slice(learned.stop, None)

    model = Forgetful(pipeline, exposure_quantile=SHARE, random_state=0)
    model.fit(X[learned], y[learned], subjects=people[learned])
    plan = model.plan_exposure((X[held_out], y[held_out]))
    print(plan.to_frame().to_string(index=False), f"\nwithout: {plan.score_without:.4f}\n")
    title = "Customers: accuracy and the cap on exposure"
    plot_exposure_plan(plan, title=title).savefig(options.out / "exposure-plan.png", dpi=120)

    model.set_params(max_exposure=1.0)
    model.fit(X[learned], y[learned], subjects=people[learned])
    exposure = model.exposure()
    print(exposure)
    title = f"{len(exposure):,} customers, max_exposure=1 for {SHARE:.0%} of them"
    figure = plot_exposure(exposure, line=1.0, title=title)
    figure.savefig(options.out / "exposure-curve.png", dpi=120)
    print(f"wrote {options.out / 'exposure-plan.png'} and {options.out / 'exposure-curve.png'}")


if __name__ == "__main__":
    main()
