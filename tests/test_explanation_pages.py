"""docs/explanation: the figures of its pages are those of the pages of results."""

import re
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def prose(page):
    return " ".join((DOCS / page).read_text().split())  # lines may break anywhere


CHOOSING, EVIDENCE = prose("explanation/choosing_a_method.md"), prose("evidence.md")
EXPOSURE, BASELINES = prose("explanation/exposure_in_words.md"), prose("baselines.md")
ATTACKED = prose("exposure.md")


def test_losses():
    """Two tables, turned around: one of points, one of per cent of RMSE."""
    for unit in ("points", "per cent of RMSE"):
        table = EVIDENCE.split(f"| largest loss, {unit} |", 1)[1].split(" | | --- |", 1)
        methods = [name.strip() for name in table[0].split("|")]
        number = r" (-?[\d.]+) \|"
        found = re.findall(r"\| (?:one person|1 %|10 %) \|" + number * 5, table[1])[:3]
        assert len(methods) == 5
        assert len(found) == 3
        for method, *losses in zip(methods, *found, strict=True):
            assert f"| {method} | {' | '.join(losses)} |" in CHOOSING


def test_seconds():
    least, most = re.search(r"takes ([\d.]+) \(depth, regression\) to (\d+) \(", EVIDENCE).groups()
    longest = re.search(r"The longest takes ([\d.]+) s", EVIDENCE)[1]
    assert f"{least} to {most} times scikit-learn's cold fit" in CHOOSING
    assert f"{longest} s at most" in CHOOSING
    redraw = re.search(r"\| redraw \| 0 \| yes \|.*?\| ([\d.]+) s /", BASELINES)[1]
    retrained = re.search(r"\| retraining \| 0 \| yes \|.*?\| (\d+) s /", BASELINES)[1]
    assert f"{redraw} s where retraining takes {retrained} s" in CHOOSING
    one, three = re.search(
        r"\| pilu \(exact\) \| 1 \|.*?\| (\d+) ms / (\d+) ms", BASELINES
    ).groups()
    assert f"{one} ms for one row, {three} ms for three" in CHOOSING


def test_exposures():
    rows = re.findall(
        r"\| [\w ,]+ \| [\d,]+ \| ([\d,]+) \| (\d+)% \| (accuracy|AUC) \| ([\d.]+)%? \|"
        r" [^|]+ \| ([\d.]+)?[^|]* \|",
        EVIDENCE.split("| median exposure |", 1)[1],
    )
    assert len(rows) == 4
    medians = sorted((row[0] for row in rows), key=lambda n: int(n.replace(",", "")))
    assert f"between {medians[0]} and {medians[-1]}" in EXPOSURE
    found = re.findall(r"\| (?:digits|diabetes|customers), \w+ \| 100 % \| (\d+) % \|", ATTACKED)
    assert len(found) == 4
    least, most = min(map(int, found)), max(map(int, found))
    assert f"finds {least} % to {most} % of the deleted rows" in EXPOSURE
    (auc,) = [row for row in rows if row[2] == "AUC"]
    assert f"AUC of {auc[4]} of {auc[3]} with a cap of 3" in EXPOSURE
    digits = rows[0]
    assert f"from {digits[3]} % accuracy to {digits[4]} %" in EXPOSURE
