"""What every script of a linear figure understands on its command line, and how it is run."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.linear.config import STUDIES
from experiments.linear.engine import Engine, engine
from experiments.linear.figures import PICTURES, TABLES, of_study, script
from experiments.store import FIGURES, STORES, Store

Compute = Callable[[Engine], dict[str, pd.DataFrame]]


def run_compute(name: str, compute: Compute, study: str, size: str, again: bool = False) -> None:
    """Compute the tables of one figure, unless they are there by the same settings."""

    def prepare() -> dict[str, Any]:
        prepared = engine(study, size)
        assert prepared.model is not None
        return {
            "data": prepared.data.provenance,
            "seed": prepared.study.seed,
            "delta": prepared.delta,
            "step_size": prepared.step_size,
        }

    def tables() -> dict[str, pd.DataFrame]:
        return {f"{study}_{table}": frame for table, frame in compute(engine(study, size)).items()}

    config = STUDIES[size][study].describe()
    STORES[size].compute(f"{study}_{name}", config, prepare, tables, again)


def study(name: str) -> tuple[Callable[[str, bool], None], Callable[[Store, Path], None]]:
    """How all tables of depth or mnist are computed, and how all their pictures are drawn."""

    def compute(size: str, again: bool = False) -> None:
        for table in of_study(TABLES, name):
            run_compute(table, script("compute", table).compute, name, size, again)

    def render(store: Store, folder: Path) -> None:
        for picture in of_study(PICTURES, name):
            script("render", picture).render(store, name, folder)

    return compute, render


def compute_script(doc: str | None, name: str, compute: Compute) -> None:
    options = _parser(doc).parse_args()
    if not of_study((name,), options.study):
        raise SystemExit(f"{name} is not a figure of {options.study}: use --study depth.")
    run_compute(name, compute, options.study, options.size, options.again)


def render_script(doc: str | None, render: Callable[..., None]) -> None:
    options = _parser(doc).parse_args()
    render(STORES[options.size], options.study, FIGURES[options.size])


def _parser(doc: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--study", choices=("depth", "mnist"), default="depth")
    parser.add_argument("--size", choices=tuple(STUDIES), default="quick")
    parser.add_argument("--again", action="store_true", help="also where the table is there")
    return parser
