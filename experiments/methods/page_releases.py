"""The sections on exposure and on reconstruction: what single releases and pairs of them tell."""

import numpy as np
import pandas as pd

from experiments.markdown import markdown, paragraph
from experiments.methods.config import TITLES
from experiments.methods.reconstruction_kinds import (
    CAPPED,
    CLASS_MEAN,
    DEFAULT,
    EXACT,
    KINDS,
    MEAN,
    NEVER,
    words,
)
from experiments.methods.render import exposures, reconstruction
from experiments.pictures import picture
from experiments.store import Store

HIDDEN = 10.0  # exposure up to which somebody counts as hidden
HARDLY = 0.05  # share of people that is hardly anybody
GIVEN_AWAY = 0.9  # likeness from which an image counts as given away
CAPS = (10, 3, 1)

Tables = dict[str, pd.DataFrame]


def exposure(store: Store) -> str:
    return f"""## Exposure of everybody

Exposure says how much one release tells about each person who is in it
([exposure.md](exposure.md)). Above: everybody, from the most exposed person on. Below: the score
when the exposure of everybody is capped, with the middle 95 % of draws, the score without noise
(line) and that of a constant (dashed). delta is {delta(store):g}.

{picture("methods_exposure", "sorted exposure with and without caps, and the score that caps cost")}
{caps(store)}
{hidden(store)}
Where a cap "cannot be reached", no noise of that shape hides the most exposed rows of that table.
"""


def delta(store: Store) -> float:
    name = exposures.names(store)[0]
    return store.provenance(f"methods_exposure_{name}")["config"]["delta"]


def caps(store: Store) -> str:
    capped = [f"cap {cap}" for cap in CAPS]
    header = ["data", "people", "median exposure", "infinite", "measure", "no noise", *capped]
    lines = []
    for name in exposures.names(store):
        curve = store.read(f"methods_exposure_{name}")
        default = curve[curve["release"] == "default"].iloc[0]
        costs = store.read(f"methods_exposure_{name}_costs").set_index("release")
        median = default["median"]
        lines.append(
            [
                TITLES[name],
                f"{default['people']:,}",
                "infinite" if np.isinf(median) else f"{median:,.0f}",
                f"{default['infinite']:.0%}",
                costs["measure"].iloc[0],
                *(score(costs, release) for release in ("no noise", *capped)),
            ]
        )
    return markdown(header, lines)


def score(costs: pd.DataFrame, release: str) -> str:
    if release not in costs.index:
        return "not tried"
    line = costs.loc[release]
    if np.isnan(line["mean"]):
        return "cannot be reached"
    return f"{line['mean']:.3f}" if line["measure"] == "AUC" else f"{line['mean']:.1%}"


def hidden(store: Store) -> str:
    """How many people default noise hides."""
    shares = []
    for name in exposures.names(store):
        curve = store.read(f"methods_exposure_{name}")
        default = curve[curve["release"] == "default"]
        # A curve starts at the most exposed: the first share that is hidden ends the others'.
        above = default[default["epsilon"] > HIDDEN]["share"].max()
        shares.append(1.0 - (0.0 if np.isnan(above) else above))
    low, high = min(shares), max(shares)
    who = f"{low:.1%}" if f"{low:.1%}" == f"{high:.1%}" else f"{low:.1%} to {high:.1%}"
    verdict = "hardly anybody" if high <= HARDLY else "some people"
    return paragraph(
        f"Default noise hides {verdict}: {who} of the people have an exposure of {HIDDEN:g} or "
        "less. It is there for the certificate of a later request."
    )


def reconstructions(store: Store) -> str:
    found = {
        name: store.read(f"methods_reconstruction_{name}") for name in reconstruction.names(store)
    }
    return f"""## Deleted images, found again

Whoever keeps the model of before a deletion can compare it with the one after. For ridge the
difference has rank one, and the deleted row can be solved for. The attacker here knows all other
rows, and of noisy releases the law of their noise. ("Other rows unknown" has other images of the
same kind instead.)

{picture("methods_reconstruction", "deleted digits, and what attacks find of them")}
{picture("methods_likeness", "likeness of what was found to each deleted image")}
Likeness is the cosine between what was found and the deleted image, both less the mean of all other
images. Medians over the deleted images, with 95 % bootstrap intervals, and accuracies on images
that were not learned (of one draw of the noise):

{likeness(store, found)}
{told(store, found)}
"""


def likeness(store: Store, found: Tables) -> str:
    header = ["release"]
    for name in found:
        header += [f"{reconstruction.DATA[name]}: likeness", "accuracy"]
    lines = []
    for kind in (kind for kind in KINDS if kind != MEAN):
        line = [words(kind).replace("\n", " ")]
        for name, table in found.items():
            middle, low, high = median_of(table, kind)
            accuracy = accuracies(store, name).get(kind)
            line.append(f"{middle + 0.0:.2f} ({low + 0.0:.2f} to {high + 0.0:.2f})")
            line.append("" if accuracy is None else f"{accuracy:.1%}")
        lines.append(line)
    return markdown(header, lines)


def median_of(table: pd.DataFrame, kind: str) -> tuple[float, ...]:
    """Median likeness and its interval, as the table shows them."""
    values = table[table["kind"] == kind]["likeness"].to_numpy()
    return tuple(round(number, 2) for number in reconstruction.interval(values))


def accuracies(store: Store, name: str) -> pd.Series:
    return store.read(f"methods_reconstruction_{name}_models").set_index("kind")["accuracy"]


def told(store: Store, found: Tables) -> str:
    """What gives images away, and what caps do and cost, by the numbers of the table."""
    parts = []
    for kind, who in ((EXACT, "exact models"), (DEFAULT, "default releases")):
        least = min(median_of(table, kind)[0] for table in found.values())
        away = "give the image away" if least >= GIVEN_AWAY else "do not always give the image away"
        parts.append(f"{who} {away} (median likeness {span_up(least)})")
    sentence = "; ".join(parts)
    lines = [f"{sentence[0].upper()}{sentence[1:]}.{negatives(found)}"]
    for cap in (10, 1):
        kind = CAPPED.format(cap)
        nothing = all(finds_nothing(table, kind) for table in found.values())
        costs = " and ".join(
            f"from {scores[EXACT]:.1%} to {scores[kind]:.1%} ({reconstruction.DATA[name]})"
            for name, scores in ((name, accuracies(store, name)) for name in found)
        )
        lines.append(
            f"With a cap of {cap} this attack "
            + (
                "finds nothing: its answers are no more like the deleted image than those about an "
                "image that was never learned."
                if nothing
                else "still finds something."
            )
            + f" Accuracy goes {costs}."
        )
    return "\n".join(paragraph(line) for line in lines)


def span_up(least: float) -> str:
    """A cosine is not above 1."""
    return f"{least:.2f}" if least >= 1 else f"at least {least:.2f}"


def negatives(found: Tables) -> str:
    """Answers about default releases that have the right shape and the wrong sign."""
    likenesses = pd.concat(
        [table[table["kind"] == DEFAULT]["likeness"] for table in found.values()]
    )
    count = int((likenesses < -0.5).sum())
    if not count:
        return ""
    return (
        f" Of {len(likenesses)} answers about default releases {count} are negatives of the image "
        "(likeness below -0.5)."
    )


def finds_nothing(table: pd.DataFrame, kind: str) -> bool:
    """No more than about an image that was never learned, and less than the mean of the class."""
    middle, low, _ = median_of(table, kind)
    return low <= median_of(table, NEVER)[2] and middle < median_of(table, CLASS_MEAN)[0]
