"""The tables of the section on CIFAR-10, as Markdown: ours beside the paper's."""

import math
from typing import Any

import pandas as pd

from experiments.cifar10.audits import is_capped
from experiments.cifar10.render import PAPER, SCORES, TITLES, picked
from experiments.markdown import markdown
from experiments.store import Store
from pilu.auditing import most_provable
from pilu.datasets import CIFAR10_CLASSES

# [PILU, Table 1]: AUC, mu-hat and epsilon-hat by the non-linear distinguisher.
TABLE_1 = {
    358: (0.77, 1.16, 3.05),
    418: (0.85, 1.47, 3.87),
    90: (0.86, 1.61, 4.28),
    483: (0.91, 2.06, 5.00),
    226: (0.97, 2.86, 7.10),
}
WAYS = SCORES | {"mirror": "the mirror's loss, fixed"}
PAPER_STEP, PAPER_RUNS = 0.01, 100
LETTERS = {name: title.split(" ")[0] for name, title in TITLES.items()}  # (a) and (b)


def settings(store: Store) -> str:
    """What both studies have in common with the paper, and what not."""
    records = [store.provenance(f"cifar10_{name}_audits") for name in TITLES]
    columns = [of_config(record) for record in records]
    columns[0] |= {
        "what is learned": "principal components of features",
        "views": "mirrors",
    }
    columns[1] |= {"what is learned": "pooled images", "views": "crops and mirrors"}
    paper = {
        "what is learned": "images, 32 x 32",
        "network": "VGG style, hidden layer 256 with dropout",
        "views": "crops and mirrors",
        "n, delta": "500, 1/500",
        "T, K": "500, 20",
        "step size": "0.01",
        "batch, l2": "256, 0.0001",
        "sigma_unlearn": "0.02",
        "noise of a step, sqrt(2 eta) sigma": f"{noise_of_a_step(PAPER_STEP, 0.02):.2g}",
        "runs R of each kind": "100",
    }
    lines = [[key, *(column[key] for column in columns), paper[key]] for key in paper]
    return markdown(["", *TITLES.values(), "the paper"], lines)


def noise_of_a_step(step_size: float, noise: float) -> float:
    return math.sqrt(2 * step_size) * noise


def of_config(record: dict[str, Any]) -> dict[str, str]:
    config = record["config"]
    network, learning, unlearning = (config[k] for k in ("network", "learning", "unlearning"))
    n = config["split"]["n_train"]
    step = noise_of_a_step(unlearning["step_size"], unlearning["noise"])
    paper = noise_of_a_step(PAPER_STEP, 0.02)
    if "sizes" in network:
        shape = "fully connected, " + "-".join(map(str, network["sizes"]))
    else:
        widths = "-".join(map(str, network["widths"]))
        shape = (
            f"{network['side']} x {network['side']} pixels, convolutions of widths {widths}, "
            f"hidden layer {network['hidden']}"
        )
    return {
        "network": shape,
        "n, delta": f"{n}, 1/{n}",
        "T, K": f"{learning['n_steps']}, {unlearning['n_steps']}",
        "step size": f"{learning['step_size']:g}",
        "batch, l2": f"{learning['batch_size']}, {learning['l2']:g}",
        "sigma_unlearn": f"{unlearning['noise']:g}",
        "noise of a step, sqrt(2 eta) sigma": f"{step:.2g}, {step / paper:.2g} times the paper's",
        "runs R of each kind": f"{record['runs_of_each_kind']:,}",
    }


def accuracy(store: Store) -> str:
    lines = []
    for name, title in TITLES.items():
        table = store.read(f"cifar10_{name}_accuracy")
        learned = table[table["kind"] == "unlearned"].iloc[0]
        cells = [f"{learned.before:.1%} ({learned.before_sd:.1%})"]
        for kind in ("unlearned", "retrained"):
            some = table[table["kind"] == kind]
            low, high = (f"{value:.1%}" for value in (some["after"].min(), some["after"].max()))
            span = low if low == high else f"{low} to {high}"
            cells.append(f"{span} ({some['after_sd'].mean():.1%})")
        lines.append([title, *cells])
    return markdown(
        ["test accuracy (deviation)", "after learning", "unlearned", "retrained"], lines
    )


def table_1(store: Store) -> str:
    lines: list[list[object]] = []
    for name, letter in LETTERS.items():
        found = picked(store.read(f"cifar10_{name}_audits"), "mlp")
        for label, (_, line) in zip(row_names(store, name), found.iterrows(), strict=True):
            auc = interval(line["auc"], line["auc_low"], line["auc_high"], 3)
            if line["auc"] == 1:  # nothing that is drawn again can vary
                auc = "1.000"
            lines.append([letter, label, auc, estimate(line, "mu"), estimate(line, "epsilon")])
    for row, values in TABLE_1.items():
        lines.append(["the paper", row, *(f"{value:.2f}" for value in values)])
    return markdown(["study", "row", "AUC", "mu-hat", "epsilon-hat"], lines)


def table_3(store: Store) -> str:
    lines: list[list[object]] = []
    for name, letter in LETTERS.items():
        audits = store.read(f"cifar10_{name}_audits")
        ways = [picked(audits, score) for score in ("linear", "mlp", "loss", "mirror")]
        for place, label in enumerate(row_names(store, name)):
            lines.append([letter, label, *(estimate(way.iloc[place], "epsilon") for way in ways)])
    for row, values in PAPER.items():
        lines.append(["the paper", row, *(f"{value:.2f}" for value in values), "", ""])
    header = ["study", "row", "linear", "non-linear", "own loss", "mirror's loss"]
    return markdown(header, lines)


def proofs(store: Store) -> str:
    lines = []
    for name, letter in LETTERS.items():
        audits = store.read(f"cifar10_{name}_audits").dropna(subset="counted")
        for score, comparison in dict.fromkeys(
            zip(audits["score"], audits["comparison"], strict=True)
        ):
            some = picked(audits, score, comparison)
            lines.append(
                [
                    letter,
                    named(score, comparison),
                    int(some["counted"].min()),
                    f"{(some['epsilon_lower'] > 0).sum()} of {len(some)}",
                    f"{some['epsilon_lower'].max():.2f}",
                    f"{some['epsilon_provable'].max():.2f}",
                ]
            )
    header = ["study", "score", "runs counted", "rows with a bound above 0", "largest bound"]
    return markdown([*header, "most provable"], lines)


def extrapolated(store: Store) -> str:
    """Above which epsilon an estimate is no more than the fitted curve."""
    most = (
        f"{picked(store.read(f'cifar10_{name}_audits'), 'loss')['epsilon_provable'].max():.1f} in "
        f"{letter}"
        for name, letter in LETTERS.items()
    )
    return (
        f"Runs can prove {' and '.join(most)} at most; the paper's {PAPER_RUNS} can prove "
        f"{paper_provable():.1f}, if all of them are counted. Above, these numbers extrapolate the "
        "fitted curve, ours as well as the paper's."
    )


def paper_provable() -> float:
    """The epsilon that the paper's runs would prove without an error, if all are counted."""
    return most_provable(PAPER_RUNS, 1 / 500)[1]


def controls(store: Store) -> str:
    """Retrained against retrained: AUC intervals that exclude 1/2, by score and study."""
    lines: list[list[object]] = []
    for score in WAYS:
        counts, total, n = [], 0, 0
        for name in LETTERS:
            some = picked(store.read(f"cifar10_{name}_audits"), score, "control")
            wrong = int(((some["auc_low"] > 0.5) | (some["auc_high"] < 0.5)).sum())
            span = f"{some['auc'].min():.3f} to {some['auc'].max():.3f}"
            counts.append(f"{wrong} of {len(some)} (AUC {span})")
            total, n = total + wrong, n + len(some)
        lines.append([WAYS[score], *counts, f"{total} of {n}"])
    return markdown(["control", *LETTERS.values(), "both"], lines)


def tests(store: Store) -> str:
    lines = []
    for name, letter in LETTERS.items():
        for test in store.read(f"cifar10_{name}_tests").itertuples():
            lines.append(
                [
                    letter,
                    named(test.score, test.comparison),
                    f"{test.largest_auc:.3f}",
                    f"{test.p_any:.4f}",
                    f"{test.largest_deviation:.3f}",
                    f"{test.p_differ:.4f}",
                    interval(test.contrast, test.contrast_low, test.contrast_high, 3),
                ]
            )
    header = ["study", "score", "largest AUC", "p: some row is detected (permutation)"]
    header += ["largest distance from the mean AUC", "p: rows differ (bootstrap)"]
    return markdown([*header, "AUC of the largest minus the smallest gradient"], lines)


def named(score: str, comparison: str) -> str:
    return WAYS[score] if comparison == "unlearned" else f"control: {WAYS[score]}"


def row_names(store: Store, name: str) -> list[str]:
    rows = store.read(f"cifar10_{name}_rows").itertuples()
    return [f"{row.row} ({CIFAR10_CLASSES[row.label]})" for row in rows]


def interval(value: float, low: float, high: float, digits: int = 2) -> str:
    return f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def estimate(line: pd.Series, column: str) -> str:
    """An estimate with its interval. "Over" marks what is only the most that R runs can show."""
    value, low, high = (line[f"{column}_{end}"] for end in ("hat", "low", "high"))
    if is_capped(line):
        return f"over {value:.2f}"
    over = "over " if is_capped(line, "high") else ""
    return f"{value:.2f} ({low:.2f} to {over}{high:.2f})"
