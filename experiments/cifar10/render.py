"""Draw both studies from their tables: the rows, trade-off curves, AUCs, and epsilon.

python -m experiments --figures --studies cifar10
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from experiments.cifar10.audits import audited_curve, is_capped
from experiments.store import Store
from experiments.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PAGE,
    bare,
    figure,
    legend_below,
    row_styles,
)
from pilu.auditing import most_provable
from pilu.datasets import CIFAR10_CLASSES

PICTURES = ("cifar10_rows", "cifar10_trade_offs", "cifar10_auc", "cifar10_epsilon")
TITLES = {"features": "(a) frozen features", "images": "(b) small images, end to end"}
SCORES = {"loss": "own loss, fixed", "linear": "linear", "mlp": "non-linear (MLP)"}
CONTROLS = {
    "loss": ("control, own loss", "x"),
    "linear": ("control, linear", "+"),
    "mlp": ("control, non-linear", "1"),
}
STYLES: dict[str, dict[str, Any]] = {
    "loss": {"color": GREEN, "marker": "o"},
    "linear": {"color": BLUE, "marker": "s"},
    "mlp": {"color": ORANGE, "marker": "^"},
}
# [PILU, Table 3]: epsilon-hat by the linear and by the non-linear distinguisher.
PAPER = {
    358: (3.52, 3.05),
    471: (2.83, 3.60),
    418: (4.78, 3.87),
    381: (4.59, 3.48),
    483: (7.41, 5.00),
    90: (5.36, 4.28),
    226: (11.63, 7.10),
}


class Tables(NamedTuple):
    """What the pictures of one study need."""

    name: str
    rows: pd.DataFrame
    pixels: pd.DataFrame
    scores: pd.DataFrame
    audits: pd.DataFrame
    setting: str


def tables_of(store: Store, name: str) -> Tables:
    kinds = ("rows", "pixels", "scores", "audits")
    rows, pixels, scores, audits = (store.read(f"cifar10_{name}_{kind}") for kind in kinds)
    record = store.provenance(f"cifar10_{name}_audits")
    config = record["config"]
    setting = (
        f"{TITLES[name]}: n = {config['split']['n_train']}, R = {record['runs_of_each_kind']:,}, "
        f"T = {config['learning']['n_steps']}, K = {config['unlearning']['n_steps']}"
    )
    return Tables(name, rows, pixels, scores, audits, setting)


def picked(audits: pd.DataFrame, score: str, comparison: str = "unlearned") -> pd.DataFrame:
    return audits[(audits["score"] == score) & (audits["comparison"] == comparison)]


def draw_rows(studies: list[Tables], folder: Path) -> None:
    """The strips of images, from the smallest gradient to the largest."""
    most = max(len(study.rows) for study in studies)
    options = {"width": PAGE, "height": 3.5}
    with figure(folder, "cifar10_rows", len(studies), most, **options) as axes:
        for line, study in zip(axes, studies, strict=True):
            for panel, row in zip(line, study.rows.itertuples(), strict=False):
                image = study.pixels[study.pixels["row"] == row.row].drop(columns="row").to_numpy()
                panel.imshow(image.reshape(32, 32, 3))
                panel.set_title(f"row {row.row}\n{CIFAR10_CLASSES[row.label]}")
                panel.set_xlabel(f"|g| = {row.gradient_norm:.2g}")
                bare(panel)
            line[0].set_ylabel(TITLES[study.name].replace(", ", ",\n"))
        axes[0, 0].figure.suptitle(
            "Rows to forget: quantiles of |g|, the gradient norm of a first network that is in no "
            "audit",
            fontsize=8,
        )


def draw_trade_offs(studies: list[Tables], folder: Path) -> None:
    """beta(alpha) of every row by each score, and between retrained runs."""
    kinds = [*((score, "unlearned") for score in SCORES), ("loss", "control")]
    options = {"height": 5.2, "sharex": True, "sharey": True}
    with figure(folder, "cifar10_trade_offs", len(studies), len(kinds), **options) as axes:
        for line, study in zip(axes, studies, strict=True):
            styles = row_styles(list(study.rows["row"]))
            for panel, (score, comparison) in zip(line, kinds, strict=True):
                for place, (row, style) in enumerate(styles.items()):
                    some = study.scores[study.scores["row"] == row]
                    curve = audited_curve(some, score, comparison)
                    quantile = study.rows["quantile"].iloc[place]
                    label = f"{quantile:.0%} quantile of |g|"
                    panel.plot(curve.alpha, curve.beta, label=label, color=style["color"])
                panel.plot([0, 1], [1, 0], color=GREY, linestyle=":", label="chance")
                panel.set_title("control, own loss" if comparison == "control" else SCORES[score])
                panel.set(xlim=(-0.02, 1), ylim=(-0.02, 1), aspect="equal")
            line[0].set_ylabel(f"{TITLES[study.name]}\ntype-II error beta(alpha)")
        for panel in axes[-1]:
            panel.set_xlabel("type-I error alpha")
        axes[0, 0].figure.suptitle(
            "Unlearned against retrained networks, one curve a row (control: retrained twice)\n"
            + "\n".join(study.setting for study in studies),
            fontsize=8,
        )
        legend_below(axes[0, 0], "")


def draw_auc(studies: list[Tables], folder: Path) -> None:
    """AUC of every row with the bar of its bootstrap, by each score, and of the controls."""
    options = {"height": 5.2, "sharex": True}
    with figure(folder, "cifar10_auc", 1, len(studies), **options) as axes:
        for panel, study in zip(axes[0], studies, strict=True):
            places = np.arange(len(study.rows))
            ways = [(score, name, "unlearned", STYLES[score]) for score, name in SCORES.items()]
            for score, (name, marker) in CONTROLS.items():
                ways.append((score, name, "control", {"color": GREY, "marker": marker}))
            for k, (score, label, comparison, style) in enumerate(ways):
                some = picked(study.audits, score, comparison)
                spread = [some["auc"] - some["auc_low"], some["auc_high"] - some["auc"]]
                panel.errorbar(
                    some["auc"], places + 0.14 * (k - 2.5), xerr=spread, fmt="", linestyle="none",
                    label=label, elinewidth=0.8, capsize=1, **style,
                )  # fmt: skip
            panel.axvline(0.5, color=GREY, linestyle=":", label="chance")
            labels = [
                f"row {row.row}, {CIFAR10_CLASSES[row.label]}\n|g| = {row.gradient_norm:.2g}"
                for row in study.rows.itertuples()
            ]
            panel.set_yticks(places, labels)
            title = study.setting.replace(": ", "\n")
            panel.set(xlabel="AUC, with 95 % of its bootstrap", title=title)
        axes[0, 0].figure.suptitle("How well unlearned networks are told from retrained ones")
        legend_below(axes[0, 0], "")


def draw_epsilon(studies: list[Tables], folder: Path) -> None:
    """epsilon-hat beside what is proved and what could be, and the paper's values."""
    options = {"height": 3.9, "sharey": True}
    with figure(folder, "cifar10_epsilon", 1, len(studies) + 1, **options) as axes:
        for panel, study in zip(axes[0], studies, strict=False):
            places = np.arange(len(study.rows))
            for k, score in enumerate(SCORES):
                some, x = picked(study.audits, score), places + 0.22 * (k - 1)
                value = some["epsilon_hat"].to_numpy()
                spread = [value - some["epsilon_low"], some["epsilon_high"] - value]
                panel.errorbar(
                    x, value, yerr=np.maximum(spread, 0), linestyle="none", label=SCORES[score],
                    **STYLES[score],
                )  # fmt: skip
                for at, top in zip(x, tops_of_capped(some), strict=True):
                    look = {"arrowstyle": "->", "color": STYLES[score]["color"], "lw": 0.8}
                    if np.isfinite(top):
                        panel.annotate("", (at, 1.5 * top), (at, top), arrowprops=look)
                panel.plot(
                    x, some["epsilon_lower"], linestyle="none", marker="_", markersize=6,
                    color=STYLES[score]["color"], label=f"proved at 95 %, {SCORES[score]}",
                )  # fmt: skip
            most = picked(study.audits, "loss")["epsilon_provable"].max()
            panel.axhline(most, color=GREY, linestyle="--", label="most that could be proved")
            panel.set_xticks(places, map(str, study.rows["row"]), rotation=45)
            panel.set(xlabel="row, by |g|", title=study.setting.replace(": ", "\n"))
        ordered = dict(sorted(PAPER.items(), key=lambda item: item[1][1]))
        paper = np.array(list(ordered.values()))
        for k, score in enumerate(("linear", "mlp")):
            axes[0, -1].plot(np.arange(len(paper)), paper[:, k], linestyle="none", **STYLES[score])
        axes[0, -1].set(xlabel="row, by epsilon-hat", title="the paper, Table 3\nn = 500, R = 100")
        axes[0, -1].set_xticks(np.arange(len(paper)), map(str, ordered), rotation=45)
        axes[0, -1].axhline(most_provable(100, 1 / 500)[1], color=GREY, linestyle="--")
        axes[0, 0].set_ylabel("epsilon at delta = 1/n (linear below 1)")
        axes[0, 0].set_yscale("symlog", linthresh=1)
        axes[0, 0].set_ylim(-0.1, 80)
        ticks = [0, 0.5, 1, 2, 5, 10, 20, 40]
        axes[0, 0].set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes[0, 0].figure.suptitle(
            "Estimates of epsilon with 95 % of their bootstrap, and lower bounds"
        )
        legend_below(axes[0, 0], "")


def tops_of_capped(found: pd.DataFrame) -> np.ndarray:
    """Where an estimate, or its bar, ends at the most that R runs can show; else not a number."""
    capped = [is_capped(line, "high") for _, line in found.iterrows()]
    return np.where(capped, found["epsilon_high"], np.nan)


def render(store: Store, folder: Path) -> None:
    studies = [tables_of(store, name) for name in TITLES]
    draw_rows(studies, folder)
    draw_trade_offs(studies, folder)
    draw_auc(studies, folder)
    draw_epsilon(studies, folder)
