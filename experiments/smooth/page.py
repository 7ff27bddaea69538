"""The page of smooth losses, written from the stored tables."""

import pandas as pd

from experiments.markdown import filled
from experiments.smooth.command import name_of, stored
from experiments.smooth.compute.horizons import N_AUXILIARY_RUNS
from experiments.smooth.config import STUDIES, TITLES
from experiments.store import Store

ORDERS = {
    "noise": "noise of forgetting the row",
    "loss": "loss, by the model that learned the row",
    "held_out": "loss, by models that did not (five folds)",
}
PICTURES = ("smooth-noise", "smooth-accuracy", "smooth-rows", "smooth-flips")


def page(store: Store) -> str:
    summaries = stored(store, "summary")
    config = store.provenance(name_of("mnist38", "noise"))["config"]
    parts = (
        introduction(config),
        "## How much noise each row needs\n",
        costs(summaries),
        about_noise(),
        horizons(store),
        "## How accurate the model stays\n",
        accuracies(store),
        about_accuracy(store),
        "## Which rows are expensive\n",
        about_rows(store),
        "## Are mislabelled rows expensive?\n",
        flips(store),
    )
    return "\n".join(filled(part) for part in parts)


def introduction(config: dict) -> str:
    return f"""# Logistic regression that forgets, measured

This page measures `LangevinLogistic` on four data sets of digits, photographs and short texts. Each
uses the features of a frozen network. `python -m experiments.smooth --size full` computes the
tables (`experiments/results/smooth-*.csv`). `make figures` draws them and writes this page: numbers
come from the tables, words are by hand.

The settings are T = {config["n_steps"]} learning steps, K = {config["n_unlearn_steps"]} unlearning
steps, alpha = {config["alpha"]:g} (of a *sum* of losses), learning noise {config["noise"]:g} and
delta = 1/n. Each request is one row, and there is no intercept. Accuracies are on rows that were
not used for learning. Means and deviations are over {config["n_repeats"]} learning runs, which are
the same for all rows and epsilon. Each run forgets with its own noise.

- **Features**: MNIST by ResNet-50 (AugNet's weights) at 96 pixels, CIFAR-10 by MobileNetV2 at 96
  pixels, texts by MiniLM. They are standardised on separate rows, which are neither learned nor
  tested, and each row is scaled to norm one. So the map does not depend on any row that can be
  forgotten.
- **Texts**: reviews and editorials of VADER's collection, with a rating of at least 1 in either
  direction. Tweets are left out, because they name people.
- **The uniform level** is the noise that could be promised without looking at rows. It uses the
  same theorem with the sensitivity eta max|x| G at every step, G = 1 for the logistic loss and
  sqrt(2) for softmax. It needs no tail bounds, so it can use all of delta. Per-row noise uses half
  of delta for the tails.
"""


def costs(summaries: dict[str, pd.DataFrame]) -> str:
    lines = [
        "| study | rows | features | least noise | median | most | uniform level | "
        "uniform / median | rows above the uniform level |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for study, summary in summaries.items():
        s = summary.iloc[0]
        lines.append(
            f"| {TITLES[study]} | {s['n']:,.0f} | {s['features']:,.0f} | {s['least']:.2g} | "
            f"{s['median']:.2g} | {s['most']:.3g} | {s['uniform']:.3g} | "
            f"{s['uniform'] / s['median']:.2g} | {s['above_uniform']:.1%} |"
        )
    return "\n".join(lines) + "\n"


def about_noise() -> str:
    return """The table shows the noise sigma_unlearn at epsilon = 1.

![Noise of every row, the most expensive first, four panels](figures/smooth-noise.webp)

Where a few rows lie above the uniform level, their bound is nearly the largest possible gradient,
and half of delta is spent on tails that they do not need. The uniform level is valid for such a row
too, but `quote` does not use it.
"""


def horizons(store: Store) -> str:
    lines = [
        "| study | T | median | uniform level | uniform / median | median margin | wrong | "
        "objective per row (minimum) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for study, table in stored(store, "horizons").items():
        for s in table.to_dict("records"):
            lines.append(
                f"| {TITLES[study]} | {s['learning_steps']:,} | {s['median']:.2g} | "
                f"{s['uniform']:.3g} | {s['uniform'] / s['median']:.3g} | "
                f"{s['median_margin']:.1f} | {s['wrong']:.1%} ({s['wrong_at_least']:.1%}) | "
                f"{s['objective']:.3f} ({s['least_objective']:.3f}) |"
            )
    return f"""The ratio of the uniform level to the median depends on T, and on how well the
classes are separated:

{chr(10).join(lines)}

This table used {N_AUXILIARY_RUNS} auxiliary runs, fewer than above, so bounds are a little looser.
With an alpha this small, steps contract little, and the uniform level grows with T. For 3 against 8
the median row does not follow it, because its margin grows as well. For texts it does: classes
overlap even at the minimum (in brackets), margins stay small, and longer learning does not widen
the gap.

So no ratio here is a constant of the method. The two studies with ten classes were not run at other
T.
"""


def accuracies(store: Store) -> str:
    lines = [
        "| study | before | cheap row (5 %) | median row | expensive row (95 %) | "
        "most expensive row | uniform level |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    summaries = stored(store, "summary")
    for study, table in stored(store, "accuracy").items():
        s, at = summaries[study].iloc[0], table[table["epsilon"] == 1.0]
        cells = [
            f"{100 * line['mean']:.1f} ± {100 * line['sd']:.1f}"
            for _, line in at.sort_values(["kind", "quantile"]).iterrows()
        ]
        before = f"{100 * s['accuracy']:.1f} ± {100 * s['accuracy_sd']:.1f}"
        lines.append(f"| {TITLES[study]} | {before} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def about_accuracy(store: Store) -> str:
    lost = []
    summaries = stored(store, "summary")
    for study, table in stored(store, "accuracy").items():
        at = table[table["epsilon"] == 1.0].set_index(["kind", "quantile"])["mean"]
        before = summaries[study].iloc[0]["accuracy"]
        own, common = (100 * (before - at[kind, 0.5]) for kind in ("own", "uniform"))
        lost.append(f"| {TITLES[study]} | {own:.1f} | {common:.1f} |")
    return f"""The table shows the accuracy in per cent after one row was forgotten at epsilon = 1,
mean and deviation.

![Accuracy against epsilon, four panels](figures/smooth-accuracy.webp)

All of these runs take the same steps; only the noise differs. A median row costs this many points
of accuracy:

| study | with its own noise | with the uniform level |
| --- | --- | --- |
{chr(10).join(lost)}

Where the curve of the most expensive row meets that of the uniform level, per-row noise gains
nothing for that row.
"""


def about_rows(store: Store) -> str:
    lines = [
        "| study | rank correlation of noise and -margin | wrong among the most expensive 2 % | "
        "wrong |",
        "| --- | --- | --- | --- |",
    ]
    for study, table in stored(store, "noise").items():
        wrong = table["label"] != table["predicted"]
        expensive = table.sort_values("noise", ascending=False, kind="stable").index
        among = wrong[expensive[: max(round(0.02 * len(table)), 1)]]
        relation = -table["margin"].corr(table["noise"], method="spearman")
        lines.append(
            f"| {TITLES[study]} | {relation:.2f} | {among.mean():.0%} ({among.sum()} of "
            f"{len(among)}) | {wrong.mean():.1%} ({wrong.sum()} of {len(wrong):,}) |"
        )
    text = f"""![The most expensive and the cheapest images](figures/smooth-rows.webp)

"Wrong" are rows that were learned, but to which the model assigns another class than their label.
The noise is nearly a function of the margin after learning.

{chr(10).join(lines)}
"""
    for study, table in stored(store, "rows").items():
        if "text" in table:
            text += "\n" + texts(study, table)
    return text


def texts(study: str, table: pd.DataFrame) -> str:
    lines = [
        f"The most expensive and the cheapest texts ({TITLES[study]}):\n",
        "| noise | label | predicted | margin | text |",
    ]
    lines.append("| --- | --- | --- | --- | --- |")
    for line in table.itertuples():
        text = " ".join(line.text.split()).replace("|", "/")
        lines.append(
            f"| {line.noise:.2g} | {line.label} | {line.predicted} | {line.margin:.1f} | {text} |"
        )
    return "\n".join(lines) + "\n"


def flips(store: Store) -> str:
    text = ""
    for study, summary in stored(store, "flips_summary").items():
        share = STUDIES["full"][study].share_flipped
        lines = ["| rows sorted by | AUC | flipped among the first |", "| --- | --- | --- |"]
        for order, title in ORDERS.items():
            ranks, first = summary[f"auc_{order}"], summary[f"among_first_{order}"]
            lines.append(
                f"| {title} | {ranks.mean():.3f} ({ranks.min():.3f} to {ranks.max():.3f}) | "
                f"{first.mean():.0%} ({first.min():.0%} to {first.max():.0%}) |"
            )
        text += f"""In {TITLES[study]}, {share:.0%} of the labels were flipped at random,
{len(summary)} times ({summary["flipped"].iloc[0]} labels each). The AUC is the share of pairs in
which a flipped row comes before another one. "The first" are as many rows as were flipped. Means,
and the range over the draws:

{chr(10).join(lines)}

{verdict_of(summary)} The median noise of flipped rows is {summary["median_flipped"].mean():.3g},
that of the others {summary["median_others"].mean():.2g}. With the wrong labels the model reaches an
accuracy of {summary["accuracy"].mean():.1%}.

"""
    return (
        text + "![Noise of flipped rows and how soon they are found](figures/smooth-flips.webp)\n"
    )


def verdict_of(summary: pd.DataFrame) -> str:
    """Whether noise finds more than the loss that is sorted by without any certificate."""
    gain = summary["auc_noise"] - summary[["auc_loss", "auc_held_out"]].max(axis=1)
    if (gain > 0).all():
        return "Noise finds flipped labels better than losses do, in every draw."
    if (gain < 0).all():
        return "Flipped labels are expensive, but the better of the losses finds them sooner."
    return (
        "Flipped labels are expensive. To find them, the noise is no clear improvement on a loss, "
        "which costs nothing."
    )
