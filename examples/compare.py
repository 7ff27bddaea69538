"""All methods on digits and diabetes: the picture and the tables of docs/baselines.md."""

import argparse
import time
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

import pilu
from pilu.plotting import plot_comparison


def digits():
    X, y = load_digits(return_X_y=True)
    model = pilu.LangevinRidgeClassifier(alpha=1.0, n_steps=300, noise=0.01, random_state=0)
    return train_test_split(X / 16, y, test_size=0.25, random_state=0), model


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    model = pilu.LangevinRidge(alpha=0.1, n_steps=800, noise=0.01, random_state=0)
    return train_test_split(X, y, test_size=0.25, random_state=0), model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("compare-output"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    # Digits stops after 300 steps, 0.03 of R2 before the minimiser, as in the tables of the docs.
    warnings.simplefilter("ignore", ConvergenceWarning)
    figure, axes = plt.subplots(2, 2, figsize=(9.6, 9.6), width_ratios=(3, 2), layout="constrained")
    frames = {}
    for (name, load), pair in zip(
        {"digits": digits, "diabetes": diabetes}.items(), axes, strict=True
    ):
        (X, X_test, y, y_test), model = load()
        started = time.perf_counter()
        frame = pilu.compare(
            X, y, [3, [7, 8, 9]], epsilon=1.0, X_test=X_test, y_test=y_test, model=model
        )
        print(f"{name}: {len(frame)} answers in {time.perf_counter() - started:.1f} s")
        columns = ["method", "n_rows", "epsilon", "certified", "test_error", "seconds"]
        print(frame[columns].to_string(index=False, float_format="{:.4g}".format), "\n")
        plot_comparison(frame, title=f"{name}, asked for epsilon = 1", axes=pair)
        frames[name] = frame
    pd.concat(frames, names=["data"]).droplevel(1).to_csv(out / "compare.csv")
    figure.savefig(out / "compare.png", dpi=110)
    print(f"wrote {out / 'compare.csv'} and {out / 'compare.png'}")


if __name__ == "__main__":
    main()
