"""A year of a deletion desk: rows come in, people leave, and the model stays as good."""

import argparse
import itertools
import shutil
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from pilu.datasets import make_customers
from pilu.desk import Desk

MONTHS, LEAVING = 12, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("desk-output"))
    parser.add_argument("--rows", type=int, default=6_000)
    options = parser.parse_args()
    out = options.out
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    X, y, people, *_ = make_customers(options.rows)
    table = X.assign(churned=y, customer=people, row=range(len(X)))
    outside = table["customer"].isin(sorted(set(people))[::4])  # these are asked, never learned
    table, held_out = table[~outside], table[outside]
    held_out.to_parquet(out / "held-out.parquet")
    start = len(table) // 2
    table[:start].to_parquet(out / "customers.parquet")

    def quality(desk: Desk) -> float:
        desk.predict_table(out / "held-out.parquet", out / "scores.csv", probabilities=True)
        scores = pd.read_csv(out / "scores.csv")
        return roc_auc_score(held_out["churned"] == "left", scores["probability of left"])

    rng, gone = np.random.default_rng(0), []
    rows, scores, seconds = [], [], []
    columns = {"target": "churned", "subject": "customer", "id": "row"}
    with Desk.fit(out / "store", out / "customers.parquet", **columns) as desk:
        steps = np.linspace(start, len(table), MONTHS + 1, dtype=int)
        for begin, end in itertools.pairwise(steps):
            new = table[begin:end]
            new[~new["customer"].isin(gone)].to_parquet(out / f"new-{end}.parquet")
            desk.add(out / f"new-{end}.parquet")
            here = sorted(set(table["customer"][:end]) - set(gone))
            leaving = rng.choice(here, size=LEAVING, replace=False).tolist()
            before = time.perf_counter()
            desk.request(leaving)
            desk.run()
            seconds.append(time.perf_counter() - before)
            gone += leaving
            rows.append(int((~table["customer"][:end].isin(gone)).sum()))
            scores.append(quality(desk))
        checks = desk.verify()
    print(f"{len(gone)} people are forgotten, {np.median(seconds):.2f} s for {LEAVING} (median)")
    print("verified:", ", ".join(name for name, holds in checks.items() if holds))
    draw(rows, scores, out / "desk.png")
    print(f"wrote {out / 'desk.png'}")


def draw(rows: list[int], scores: list[float], path: Path) -> None:
    figure, (above, below) = plt.subplots(2, 1, figsize=(7, 4.4), sharex=True, layout="constrained")
    months = range(1, len(rows) + 1)
    above.bar(months, rows, color="#2f6690")
    above.set_ylabel("rows in the model")
    below.plot(months, scores, "o-", color="#2f6690")
    below.set_ylim(0.5, 1)
    below.set_ylabel("ROC AUC,\nothers' rows")
    below.set_xlabel("month")
    below.set_xticks(months)
    above.set_title(f"New rows every month, and {LEAVING} people who leave", fontsize=11)
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
