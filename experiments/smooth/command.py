"""What every script of these studies understands on its command line, and how it is run."""

import argparse
from collections.abc import Callable
from typing import Any

import pandas as pd

from experiments.smooth.config import STUDIES
from experiments.smooth.engine import Engine, engine
from experiments.store import FIGURES, STORES, Store

Compute = Callable[[Engine], dict[str, pd.DataFrame]]


def name_of(study: str, table: str) -> str:
    return f"smooth-{study}-{table}"


def run_compute(name: str, compute: Compute, study: str, size: str, again: bool = False) -> None:
    """Compute the tables of one script, unless they are there by the same settings."""

    def prepare() -> dict[str, Any]:
        prepared = engine(study, size)
        assert prepared.model is not None
        return {
            "data": prepared.data.provenance,
            "seed": prepared.study.seed,
            "delta": prepared.delta,
            "step_size": prepared.model.step_size_,
        }

    def tables() -> dict[str, pd.DataFrame]:
        return {
            name_of(study, table): frame for table, frame in compute(engine(study, size)).items()
        }

    config = STUDIES[size][study].describe()
    STORES[size].compute(name_of(study, name), config, prepare, tables, again)


def stored(store: Store, table: str) -> dict[str, pd.DataFrame]:
    """A table of every study that has it, in the studies' order."""
    names = {study: name_of(study, table) for study in STUDIES["full"]}
    there = {study: name for study, name in names.items() if store.holds(name)}
    if not there:
        store.read(next(iter(names.values())))  # says how to make it
    return {study: store.read(name) for study, name in there.items()}


def compute_script(doc: str | None, name: str, compute: Compute) -> None:
    parser = _parser(doc)
    parser.add_argument("--study", choices=tuple(STUDIES["full"]), default="mnist38")
    parser.add_argument("--again", action="store_true", help="also where the table is there")
    options = parser.parse_args()
    run_compute(name, compute, options.study, options.size, options.again)


def render_script(doc: str | None, render: Callable[..., None]) -> None:
    size = _parser(doc).parse_args().size
    render(STORES[size], FIGURES[size])


def _parser(doc: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--size", choices=tuple(STUDIES), default="quick")
    return parser
