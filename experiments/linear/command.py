"""What every script of a linear figure understands on its command line, and how it is run."""

import argparse
import time
from collections.abc import Callable

import pandas as pd

from experiments.linear.config import STUDIES
from experiments.linear.engine import Engine, engine
from experiments.linear.figures import of_study
from experiments.store import FIGURES, STORES

Compute = Callable[[Engine], dict[str, pd.DataFrame]]


def run_compute(name: str, compute: Compute, study: str, size: str, again: bool = False) -> None:
    """Compute the tables of one figure, unless they are there by the same settings."""
    config, store = STUDIES[size][study].describe(), STORES[size]
    marker = f"{study}_{name}"
    if store.has(marker, config) and not again:
        print(f"{marker}: is there already (--again computes it anew)", flush=True)
        return
    prepared = engine(study, size)
    assert prepared.model is not None  # data, features and fit are not part of the figure's time
    started = time.perf_counter()
    tables = compute(prepared)
    seconds = time.perf_counter() - started
    provenance = {
        "config": config,
        "data": prepared.data.provenance,
        "seed": prepared.study.seed,
        "delta": prepared.delta,
        "step_size": prepared.step_size,
        "seconds": round(seconds, 2),
    }
    for table in sorted(tables, key=lambda table: table == name):  # the marker last
        store.write(f"{study}_{table}", tables[table], provenance)
    print(f"{marker}: {seconds:.1f} s", flush=True)


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
