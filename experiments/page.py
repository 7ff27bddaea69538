"""Write the page of results from the stored tables.

python -m experiments.page --size full      # docs/results.md
python -m experiments.page --size quick     # beside the quick tables
"""

import argparse
import textwrap
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
SUMMARY = """\
In short: with the paper's own accountant most of its claims hold here, down to the shapes of the
curves. What the paper says about the *cost* of unlearning (long training, few steps, hard rows) is
true of its bound. The exact accountant certifies the same runs with much less noise. On the depth
data most of these costs then disappear. On MNIST, where hard rows really are hard, they shrink."""
QUICK = "A quick run at a small size; docs/results.md has the full one."
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
    words = ["holds", "in part", "does not hold", "not decided"]
    verdicts = [
        f"| {name} | " + " | ".join(str(count[f"**{word}**"]) for word in words) + " |"
        for name, count in counts.items()
    ]
    meanings = [" | ".join(meaning.split(": ", 1)) for meaning in THRESHOLDS]
    summary = SUMMARY if store == STORES["full"] else QUICK
    return f"""# Does the paper hold? Claim by claim

Each claim of the paper's experiments has one line: what was measured here, and whether it holds by
the paper's accountant (Theorem 1) and by the exact one. `python -m experiments.page` writes this
page from the tables in `experiments/results/`. Numbers and verdicts are computed; reasons are
written by hand. [experiments/README.md](../experiments/README.md) says which command draws which
figure. Absolute numbers differ from the paper's, because the features are different.

{summary}

| number of claims | {" | ".join(words)} |
| --- | --- | --- | --- | --- |
{chr(10).join(verdicts)}

"Neither" are claims that do not depend on an accountant. They have one verdict, in the first
column.

| word | what it means here |
| --- | --- |
{chr(10).join(f"| {meaning} |" for meaning in meanings)}
"""


def setting(store: Store, study: str) -> str:
    if study == "cifar10":
        record = store.provenance("cifar10_audits")
        config = record["config"]
        return filled(
            f"There were R = {record['runs_of_each_kind']} runs of each kind (the paper: 100), "
            f"T = {config['learning']['n_steps']} steps (the paper: 500) and networks of widths "
            f"{', '.join(map(str, config['architecture']['widths']))}. Their test accuracy is "
            f"{record['test_accuracy_of_a_learned_network']:.0%}. [auditing.md](auditing.md) has "
            "more. Each claim has one verdict, because nothing is certified here."
        )
    record = store.provenance(f"{study}_rows")
    rows, features, config = record["data"]["rows"], record["data"]["features"], record["config"]
    if study == "depth":
        size = config["data"]["patch"]
        what = (
            f"The data are patches of {size} x {size} pixels of Middlebury's Motorcycle with their "
            "median depth in metres, and VGG16 hypercolumns as features. Blocks of columns are "
            "held out, but their features still see their neighbours. The paper uses NYU-Depth V2 "
            "and DINOv2, and holds out whole images."
        )
    else:
        what = (
            f"The features are those of {features['network']} ({features['weights']}) on images "
            f"resized to {config['data']['image_size']} pixels. The paper uses ImageNet weights."
        )
    return (
        filled(what)
        + "\n"
        + filled(
            f"The settings are n = {rows['train']:,}, p = {rows['columns']:,}, {rows['test']:,} "
            f"test rows, T = {config['n_steps']}, K = {config['n_unlearn_steps']}, alpha = "
            f"{config['alpha']:g}, sigma_learn = {config['noise']:g}, delta = 1/n split in halves, "
            f"and {config['n_runs']} runs. Features are standardised on the training part, which "
            "no certificate covers ([guarantee.md](guarantee.md))."
        )
    )


def filled(text: str) -> str:
    return textwrap.fill(text, 100, break_on_hyphens=False, break_long_words=False) + "\n"


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
        textwrap.fill(f"- *{found.claim}* {found.reason}", 100, subsequent_indent="  ")
        for found in findings
        if found.reason and not {found.theorem, found.exact} <= {True, None}
    ]
    heading = "Why a claim does not hold, or only in part:"
    return "\n".join([heading, "", *lines, ""]) if lines else ""


def beyond(store: Store) -> str:
    lines = [
        "## How much noise the exact accountant saves",
        "",
        filled(
            "Noise by Theorem 1 over noise by the exact accountant, at epsilon = 1, for rows drawn "
            "at random. Rows that need no further noise have no ratio."
        ),
        "| data | rows | 10 % | median | 90 % | rows that need no further noise |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for study in ("depth", "mnist"):
        found = store.read(f"{study}_difficulty")
        ratios = (found["theorem"] / found["exact"].where(found["exact"] > 1e-6)).dropna()
        quantiles = " | ".join(number(ratios.quantile(q)) for q in (0.1, 0.5, 0.9))
        none = int((found["exact"] <= 1e-6).sum())
        lines.append(f"| {TITLES[study]} | {len(found)} | {quantiles} | {none} |")
    return "\n".join(lines) + "\n"


def speed(store: Store) -> str:
    literal = float(store.read("depth_timing")["seconds"].iloc[0])
    sweep = store.read("depth_sweep_seconds").iloc[0]
    machine = store.provenance("depth_timing")["machine"]
    lines = [
        "## How long it takes",
        "",
        filled(
            f"Times are after features and fit, on {machine['cores']} cores "
            f"({machine['processor']}). One literal run of Algorithm 1, T + K passes over the "
            f"rows, takes {literal:.1f} s."
        ),
        "| what | runs | seconds | literal runs | limit, in literal runs |",
        "| --- | --- | --- | --- | --- |",
        f"| privacy-utility sweep, both accountants | {int(sweep['runs']):,} | "
        f"{sweep['seconds']:.1f} | {sweep['seconds'] / literal:.2f} | 3 |",
    ]
    for name, title in (
        ("unlearning_steps", "ablation over K"),
        ("learning_steps", "ablation over T"),
    ):
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
