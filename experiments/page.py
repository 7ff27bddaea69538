"""Write the page of results from the stored tables.

python -m experiments.page --size full      # docs/results.md
python -m experiments.page --size quick     # beside the quick tables
"""

import argparse
from collections import Counter
from pathlib import Path

from experiments.claims import CLAIMS, IN_PART, OPEN, THRESHOLDS, Finding, number
from experiments.store import HERE, STORES, Store

PAGES = {"full": HERE.parent / "docs" / "results.md", "quick": HERE / "runs" / "quick" / "page.md"}
TITLES = {
    "depth": "Depth",
    "mnist": "MNIST",
    "cifar10": "CIFAR-10, beyond the linear case",
}
THE_SHORT_OF_IT = """\
The short of it: what the paper shows of its method, we mostly find again with its own accountant,
down to the shapes of the curves. Where it speaks of what unlearning *costs* (long training, few
steps, hard rows), it speaks of its bound: the exact accountant certifies the same runs with much
less noise. On the depth data most of these costs then disappear; on MNIST, where hard rows really
are hard, they shrink."""
QUICK = "A quick run at a small size; docs/results.md tells of the full one."
VERDICTS = {True: "**holds**", False: "**does not hold**", None: ""}
VERDICTS |= {word: f"**{word}**" for word in (IN_PART, OPEN)}


def page(store: Store) -> str:
    """The page as Markdown: a line for every claim, verdicts by both accountants."""
    parts = [introduction(store)]
    for study, claims in CLAIMS.items():
        findings = [claim(store, study) for claim in claims]
        parts += [f"## {TITLES[study]}\n", setting(store, study), table(findings), why(findings)]
    parts += [beyond(store), speed(store)]
    return "\n".join(part for part in parts if part)


def introduction(store: Store) -> str:
    counts = {name: Counter() for name in ("Theorem 1", "the exact accountant", "neither")}
    for study, claims in CLAIMS.items():
        for claim in claims:
            found = claim(store, study)
            if found.exact is None:
                counts["neither"][VERDICTS[found.theorem]] += 1
            else:
                counts["Theorem 1"][VERDICTS[found.theorem]] += 1
                counts["the exact accountant"][VERDICTS[found.exact]] += 1
    told = "; ".join(
        f"{name}: " + ", ".join(f"{verdict.strip('*')} {n}" for verdict, n in found.most_common())
        for name, found in counts.items()
    )
    short = THE_SHORT_OF_IT if store == STORES["full"] else QUICK
    return f"""# The paper, figure by figure

Each claim of the paper's experiments in one line, what was measured here, and whether it holds: by
the paper's accountant (Theorem 1) and by the exact one. `python -m experiments.page` writes this
page from the tables in `experiments/results/`: numbers and verdicts are computed, reasons are
written by hand. [experiments/README.md](../experiments/README.md) says which command draws which
figure. Absolute numbers are not the paper's: the features are others.

Verdicts by accountant: {told}. "Neither" are claims that no accountant has a say in; they have one
verdict, in the first column. What the words mean: {"; ".join(THRESHOLDS)}.

{short}
"""


def setting(store: Store, study: str) -> str:
    if study == "cifar10":
        told = store.provenance("cifar10_audits")
        config = told["config"]
        return (
            f"R = {told['runs_of_each_kind']} runs of each kind (the paper: 100), T = "
            f"{config['learning']['n_steps']} (500), widths "
            f"{', '.join(map(str, config['architecture']['widths']))}; test accuracy "
            f"{told['test_accuracy_of_a_learned_network']:.0%}. More in "
            "[auditing.md](auditing.md). One verdict a claim: nothing is certified here.\n"
        )
    told = store.provenance(f"{study}_rows")
    rows, features, config = told["data"]["rows"], told["data"]["features"], told["config"]
    if study == "depth":
        size = config["data"]["patch"]
        what = (
            f"Middlebury's Motorcycle, patches of {size} x {size} pixels with their median depth "
            "in metres, VGG16 hypercolumns; blocks of columns are held out, whose features still "
            "see their neighbours (the paper: NYU-Depth V2, DINOv2, whole images held out)"
        )
    else:
        what = (
            f"{features['network']} features ({features['weights']}) of images resized to "
            f"{config['data']['image_size']} pixels (the paper: ImageNet weights)"
        )
    return (
        f"{what}. n = {rows['train']:,}, p = {rows['columns']:,}, {rows['test']:,} rows for "
        f"testing; T = {config['n_steps']}, K = {config['n_unlearn_steps']}, alpha = "
        f"{config['alpha']:g}, sigma_learn = {config['noise']:g}, delta = 1/n in halves, "
        f"{config['n_runs']} runs. Features are standardised on the training part, which no "
        "certificate covers ([guarantee.md](guarantee.md)).\n"
    )


def table(findings: list[Finding]) -> str:
    lines = [
        "| figure | claim of the paper | measured here | Theorem 1 | exact |",
        "| --- | --- | --- | --- | --- |",
    ]
    for found in findings:
        verdicts = (VERDICTS[found.theorem], VERDICTS[found.exact])
        lines.append(
            f"| {found.figure} | {found.claim} | {found.measured} | {verdicts[0]} | {verdicts[1]} |"
        )
    return "\n".join(lines) + "\n"


def why(findings: list[Finding]) -> str:
    """Reasons, for those that do not hold by one of the accountants."""
    lines = [
        f"- *{found.claim}* {found.reason}"
        for found in findings
        if found.reason and not {found.theorem, found.exact} <= {True, None}
    ]
    return "\n".join(["Where it does not hold, or not wholly:", "", *lines, ""]) if lines else ""


def beyond(store: Store) -> str:
    lines = ["## Beyond the paper", ""]
    for study in ("depth", "mnist"):
        found = store.read(f"{study}_difficulty")
        ratios = (found["theorem"] / found["exact"].where(found["exact"] > 1e-6)).dropna()
        none = int((found["exact"] <= 1e-6).sum())
        lines.append(
            f"- {TITLES[study]}, {len(found)} rows drawn at random, epsilon = 1: Theorem 1 asks "
            f"for {number(ratios.quantile(0.1))} to {number(ratios.quantile(0.9))} times the noise "
            f"of the exact accountant (10 % to 90 % of rows; median {number(ratios.median())})"
            + (f"; rows that need no further noise at all: {none}." if none else ".")
        )
    return "\n".join(lines) + "\n"


def speed(store: Store) -> str:
    literal = float(store.read("depth_timing")["seconds"].iloc[0])
    sweep = store.read("depth_sweep_seconds").iloc[0]
    machine = store.provenance("depth_timing")["machine"]
    lines = [
        "## Time",
        "",
        f"After features and fit, on {machine['cores']} cores ({machine['processor']}). One "
        f"literal run of Algorithm 1, T + K passes over the rows: {literal:.1f} s.",
        "",
        "| what | runs | seconds | literal runs | asked for at most |",
        "| --- | --- | --- | --- | --- |",
        f"| privacy-utility sweep, both accountants | {int(sweep['runs']):,} | "
        f"{sweep['seconds']:.1f} | {sweep['seconds'] / literal:.2f} | 3 |",
    ]
    for name, title in (("unlearning_steps", "ablation over K"), ("learning_steps", "over T")):
        runs = len(store.read(f"depth_{name}")) * store.provenance("depth_rows")["config"]["n_runs"]
        seconds = store.provenance(f"depth_{name}")["seconds"]
        lines.append(
            f"| {title}, both accountants | {runs:,} | {seconds:.1f} | {seconds / literal:.2f} | "
            "10 |"
        )
    lines += ["", "The paper's A100 took 17.6, 11.6 and 7 minutes for one accountant each."]
    return "\n".join(lines) + "\n"


def write(size: str) -> Path:
    path = PAGES[size]
    path.write_text(page(STORES[size]))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=tuple(STORES), default="full")
    print(f"wrote {write(parser.parse_args().size)}")


if __name__ == "__main__":
    main()
