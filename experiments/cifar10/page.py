"""The section on CIFAR-10 of docs/results.md, from the stored tables."""

from experiments.cifar10 import tables
from experiments.cifar10.render import PICTURES, TITLES, picked
from experiments.markdown import paragraph
from experiments.pictures import picture
from experiments.store import Store

__all__ = ["PICTURES", "section"]

INTRODUCTION = """\
Two studies repeat the paper's. In (a) a small network learns features that a frozen MobileNetV2
computed, so that many runs are affordable. In (b) a convolutional network learns small images end
to end. Every run has its own batches, views and noise. An *unlearned* run learns all rows and then
takes K noisy steps without one. A *retrained* run never sees that row and takes the same K steps
(Definition 1). Nothing is certified here."""
PROBES = """\
Distinguishers see logits of the row's image, its mirror and {n_probe} images that no run learned.
Principal components are those of images that were set aside. All runs of a study start from the
same weights, and learning has no noise of its own. {choice}"""
ROWS = """\
**Figure 2b.** The rows to forget. A first network, which is in no audit, ranks all rows by their
gradient norm |g|, and these are fixed quantiles of it. *The paper:* "Representative samples
selected for unlearning", "ordered from left to right by increasing difficulty"."""
ACCURACY = """\
**Accuracy** on {n_test:,} test images: after T steps, and after K more noisy steps without a row
(least and largest mean over the rows)."""
TABLE_1 = """\
**Table 1.** Estimates by the non-linear distinguisher, the smallest gradient first. "Over": no run
was mistaken, so R runs show no more. In brackets is the spread when runs are drawn again, which is
no confidence for trained distinguishers (see the controls below). Row numbers of ours and of the
paper name different images."""
TABLE_3 = """\
**Table 3.** epsilon-hat by each distinguisher. The last two are fixed scores, which need no
training: the loss of the row's own image, and that of its mirror. Only theirs are intervals of
95 % confidence."""
CURVES = """\
**Figure 9.** Trade-off curves. The fixed score and the control are additions. *The paper:*
"Empirical hypothesis-testing trade-off curves", which "differ substantially across indices"."""
AREAS = """\
**AUC of every row.** Bars are 95 % of the AUCs when runs are drawn again; distinguishers are not
trained again. For fixed scores these are confidence intervals. Near AUC = 1 they are too short: for
100 runs of two Gaussians, 90 % of them cover an AUC of 0.98."""
CONTROLS = """\
**Controls.** Retrained runs of even against those of odd number, which follow the same law: each
cell counts the rows whose bar excludes 0.5. One in twenty would do so by chance if the bars were
confidence intervals. Scores of trained distinguishers come from five folds that trained on each
other's runs, so theirs are a spread and not a confidence."""
EPSILON = """\
**epsilon-hat and what is proved.** Dashes are lower bounds that hold with 95 % confidence, each by
itself. Arrows: no run was mistaken, and epsilon-hat is only the most that R runs can show. Bars are
as in the last figure."""
PROOFS = """\
**What is proved.** Lower bounds on epsilon at 95 %, each by itself. Thresholds and distinguishers
come from other runs than those that are counted. The control compares retrained runs of even with
those of odd number. With no difference at all, a bound may still be above 0 in one row of
twenty."""
TESTS = """\
**Is a row detected, and do rows differ?** Two tests over all rows together. The null of the first
is that runs of both kinds follow one law. Their labels are permuted, and 1/2,000 is the least
possible. The null of the second is that all rows have the same AUC, whatever it is. The largest
distance from the mean is compared with that of the bootstrap's errors; 1/501 is the least possible.
Whole lines of runs are permuted and drawn, so that what rows share stays together. Trained
distinguishers are tested on the half of the runs that did not train them. Each p-value is by
itself. The last column is the difference between two rows that were named before any audit."""


def section(store: Store) -> str:
    return "\n".join(
        [
            "## CIFAR-10, beyond the linear case\n",
            INTRODUCTION + "\n",
            tables.settings(store),
            paragraph(PROBES.format(n_probe=split(store)["n_probe"], choice=choice(store))),
            picture("cifar10_rows", "Two strips of photographs, with their gradient norms."),
            paragraph(ROWS + " " + out_of_order(store)),
            paragraph(ACCURACY.format(n_test=split(store)["n_test"])),
            tables.accuracy(store),
            TABLE_1 + "\n",
            tables.table_1(store),
            paragraph(tables.extrapolated(store)),
            TABLE_3 + "\n",
            tables.table_3(store),
            picture("cifar10_trade_offs", "Trade-off curves of every row by three scores."),
            CURVES + "\n",
            picture("cifar10_auc", "AUC of every row with intervals, by three scores."),
            AREAS + "\n",
            CONTROLS + "\n",
            tables.controls(store),
            picture("cifar10_epsilon", "Epsilon-hat of every row, bounds, and the paper's."),
            EPSILON + "\n",
            PROOFS + "\n",
            tables.proofs(store),
            TESTS + "\n",
            tables.tests(store),
            verdict(store),
        ]
    )


def split(store: Store) -> dict[str, int]:
    return store.provenance("cifar10_images_audits")["config"]["split"]


def choice(store: Store) -> str:
    told = []
    for name, letter in tables.LETTERS.items():
        table = store.read(f"cifar10_{name}_step_sizes")
        aim = store.provenance(f"cifar10_{name}_step_sizes")["config"]["aim"]
        each = ", ".join(f"{row.aside:.1%} by {row.step_size:g}" for row in table.itertuples())
        told.append(f"in {letter} {each}, the aim being {aim:.0%}")
    return (
        "The step size is the smallest of three whose accuracy on images set aside reaches an aim: "
        f"{'; '.join(told)}."
    )


def out_of_order(store: Store) -> str:
    """Which rows are told better than the next one, whose gradient is larger."""
    told = []
    for name, letter in tables.LETTERS.items():
        found = picked(store.read(f"cifar10_{name}_audits"), "mlp")
        falls = found["row"][found["auc"].diff().shift(-1) < 0]
        if len(falls):
            told.append(f"in {letter} {', '.join(map(str, falls))}")
    if not told:
        return "Ours are in that order by AUC."
    return (
        "Ours are not quite in that order. Told better than the next row, whose gradient is "
        f"larger, are rows {'; '.join(told)}."
    )


def verdict(store: Store) -> str:
    """Sentences for each study, their words chosen by the tables."""
    told = [of_study(store, name) for name in TITLES]
    return paragraph("**What follows.** " + " ".join(told))


def of_study(store: Store, name: str) -> str:
    audits = store.read(f"cifar10_{name}_audits")
    areas = {score: picked(audits, score)["auc"] for score in ("mlp", "loss")}
    bounds = picked(audits, "loss")["epsilon_lower"]
    differ = "are established" if rows_differ(store, name) else "are not established"
    return (
        f"In {tables.LETTERS[name]} AUC goes from {areas['mlp'].min():.2f} to "
        f"{areas['mlp'].max():.2f} by the non-linear distinguisher, and from "
        f"{areas['loss'].min():.2f} to {areas['loss'].max():.2f} by the row's own loss. The loss "
        f"proves epsilon > 0 for {(bounds > 0).sum()} of {len(bounds)} rows, and "
        f"{bounds.max():.2f} at most, each by itself. By it, differences between rows {differ}."
    )


def rows_differ(store: Store, name: str, level: float = 0.05) -> bool:
    """By the bootstrap test, and between the two rows that were named beforehand."""
    test = picked(store.read(f"cifar10_{name}_tests"), "loss").iloc[0]
    return bool(
        test["p_differ"] < level and (test["contrast_low"] > 0 or test["contrast_high"] < 0)
    )
