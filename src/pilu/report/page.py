"""The page: one self-contained HTML file that loads nothing and runs no scripts."""

import shlex
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np

from pilu._digits import down, near, up
from pilu._extras import need
from pilu.certify.guessing import percent
from pilu.report import words
from pilu.report.data import Contents, Costs
from pilu.report.entries import count, describe_entry
from pilu.report.history import Certified, parse_time
from pilu.report.next_steps import actions_of
from pilu.report.pictures import draw_budget, draw_costs
from pilu.report.score_picture import draw_scores

_SHOWN = 1_000  # lines of a table: a page has to open

_HASHES = {  # fields of an entry that hold a hash, and what the page calls them
    "store": "store",
    "subject": "person",
    "people": "people",
    "parameters_sha256": "parameters",
    "sha256": "file",
    "certificate_sha256": "certificate",
}
_KINDS = {
    "unlearn": "forgot",
    "redraw": "redrew",
    "add": "learned rows",
    "correct": "corrected rows",
    "sync": "followed the table",
}
_QUANTILES = {
    "minimum": 0.0,
    "25 % need at most": 0.25,
    "median": 0.5,
    "75 % need at most": 0.75,
    "95 % need at most": 0.95,
    "maximum": 1.0,
}


def render(contents: Contents) -> str:
    """The report as HTML; equal contents give equal text."""
    jinja2 = need("jinja2", for_="pilu report", extra="desk")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (files("pilu.report") / name).read_text("utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"up": up, "down": down, "near": near, "when": _format_time}
    environment.filters["digits"] = words.digits
    environment.globals |= {"count": count, "last": _last}
    store, scores = shlex.quote(contents.store), contents.scores
    text: str = environment.get_template("page.html").render(
        c=contents,
        headline=words.headline(contents),
        promise=words.describe_promise(contents),
        actions=actions_of(contents),
        guess=words.describe_guess(contents),
        right=None if contents.guess is None else percent(contents.guess),
        promises=words.promises(contents),
        limits=words.limits(contents),
        quality=words.describe_quality(contents),
        score_pictures=[] if scores is None else [draw_scores(scores, contents.score_now)],
        kinds=_KINDS,
        log=[_entry(*one) for one in list(enumerate(contents.entries))[-_SHOWN:]],
        most_lines=_SHOWN,
        commands=[f"pilu ledger {store} --since {contents.head}", f"pilu verify {store}"],
        store_id=next((e["store"] for e in contents.entries if "store" in e), None),
        **_of_chain(contents),
    )
    return text


def _of_chain(contents: Contents) -> dict[str, Any]:
    """What only Langevin stores show."""
    chain = contents.chain
    if chain is None:
        return {}
    costs = chain.costs
    quoted = costs if costs is not None and len(costs.noise) else None
    return {
        "budget_pictures": draw_budget(contents, chain),
        "cost_picture": draw_costs(quoted) if quoted else None,
        "cost_words": words.describe_costs(costs, chain.learning_noise) if costs else [],
        "cost_table": _quantiles(quoted) if quoted else [],
    }


def _last(number: int) -> str:
    """The beginning of a caption, where a table shows the last lines only."""
    return f"The last {_SHOWN:,} (`pilu ledger` shows all) of " if number > _SHOWN else ""


def _format_time(time: str) -> str:
    """A time to the minute."""
    return f"{parse_time(time):%Y-%m-%d %H:%M}"


def _entry(place: int, entry: Mapping[str, Any]) -> dict[str, Any]:
    hashes = [(called, entry[name]) for name, called in _HASHES.items() if entry.get(name)]
    if "certificate" in entry:
        if "certificate_sha256" not in entry:  # earlier formats
            hashes.append(("certificate", Certified(place, entry).sha256))
        hashes.append(("parameters", entry["certificate"]["parameters_sha256"]))
    return {
        "place": place,
        "time": entry.get("time"),
        "kind": entry.get("kind", "unknown"),
        "words": describe_entry(entry),
        "hashes": hashes,
        "people": entry.get("subjects", ()),
    }


def _quantiles(costs: Costs) -> list[tuple[str, float]]:
    return [(name, float(np.quantile(costs.noise, level))) for name, level in _QUANTILES.items()]
