"""Fit, quote, forget, verify and redraw on the bundled digits: `make digits`."""

import argparse
import copy
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import pilu

PERSON = [7, 8, 9, 10, 11]  # one writer's five digits


def line(*cells: object) -> None:
    widths = (38, 10, 10, 11, 10)
    print("  ".join(str(c).ljust(w) for c, w in zip(cells, widths, strict=False)).rstrip())


def draw(noise: np.ndarray, rows: list[int], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    axes.hist(noise, bins=60, color="#7a9cc6")
    top = axes.get_ylim()[1]
    for row in rows:
        axes.axvline(noise[row], color="#c44e52", linewidth=1.2)
    axes.annotate(
        "the five forgotten rows",
        (max(noise[rows]), 0.9 * top),
        color="#c44e52",
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
    )
    axes.set_xlabel("noise that forgetting the row needs (sigma_unlearn)")
    axes.set_ylabel("training rows")
    axes.set_title("Digits: what each row's deletion would cost at epsilon = 1", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo-output"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    X, y = load_digits(return_X_y=True)
    X = X / 16.0  # a fixed scaling: nothing in it was learned from the rows
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=0)

    def timed(call):
        start = time.perf_counter()
        result = call()
        return result, f"{time.perf_counter() - start:.2f} s"

    model = pilu.LangevinRidgeClassifier(alpha=1.0, n_steps=800, noise=0.01)
    line("", "epsilon", "delta", "test acc.", "time")
    _, seconds = timed(lambda: model.fit(X, y))
    line(f"fit on {len(X)} rows", "", "", f"{model.score(X_test, y_test):.3f}", seconds)

    quotes = {}
    for name in ("theorem", "exact"):
        quote, seconds = timed(lambda name=name: model.quote(epsilon=1.0, accountant=name))
        quotes[name] = quote.noise
        line(f"quote all {len(quote)} rows, {name}", "1.0", f"{quote.delta[0]:.1e}", "", seconds)

    noises = {}
    for name, accountant in (("theorem", pilu.Theorem(group="joint")), ("exact", "exact")):
        twin = copy.deepcopy(model)  # both forget from the same learned parameters
        certificate, seconds = timed(
            lambda: twin.unlearn(  # noqa: B023
                PERSON,
                epsilon=1.0,
                accountant=accountant,  # noqa: B023
                validation=(X_test, y_test),
            )
        )
        noises[name], utility = certificate.noise, certificate.utility
        line(
            f"forget one person's {len(PERSON)} rows, {name}",
            f"{certificate.epsilon:.3f}",
            f"{certificate.delta:.1e}",
            f"{twin.score(X_test, y_test):.3f}",
            seconds,
        )
    model = twin
    saved = out / "certificate.json"
    saved.write_text(certificate.to_json())
    checks = model.verify(pilu.Certificate.from_json(saved.read_text()))

    redraw, seconds = timed(lambda: model.unlearn(method="redraw"))
    line(
        "redraw: forget them completely",
        f"{redraw.epsilon:.3f}",
        f"{redraw.delta:.1e}",
        f"{model.score(X_test, y_test):.3f}",
        seconds,
    )

    ratio = quotes["theorem"] / quotes["exact"]
    print(
        f"\nTheorem 1 asks for {np.median(ratio):.1f} times the exact noise (median; "
        f"{ratio.min():.1f} to {ratio.max():.1f}), for the group {noises['theorem']:.2f} "
        f"against {noises['exact']:.3f}"
    )
    print(
        f"expected test accuracy, predicted before the noise was drawn: {utility['before']:.3f} "
        f"before, {utility['after']:.3f} after (exact), {utility['redraw']:.3f} by a redraw"
    )
    print("verified:", ", ".join(name for name, found in checks.items() if found))
    print("not checked:", ", ".join(name for name, found in checks.items() if not found))
    draw(quotes["exact"], PERSON, out / "costs.png")
    print(f"\nwrote {saved} and {out / 'costs.png'}")


if __name__ == "__main__":
    main()
