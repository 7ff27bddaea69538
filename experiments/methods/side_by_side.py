"""Six methods, three shares of people, nine data sets: one table a data set.

The table has one line for each method, share and repeat. A method that cannot answer, or not in
time, has the reason in its line and no numbers.
"""

import math
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from experiments.methods.config import METHODS, SETTINGS, SHARES, SideBySide
from experiments.methods.contestants import (
    MAKERS,
    REFUSALS,
    Contestant,
    TooLong,
    grid_of,
    learns_at_random,
    limited,
    timed,
)
from experiments.methods.data import Case, load
from experiments.store import STORES


def compute(size: str, name: str, again: bool = False) -> None:
    """The tables of one data set, unless they are there."""
    settings = SETTINGS[size]
    config = settings.side_by_side[name]
    cases: dict[str, Case] = {}

    def prepare() -> dict[str, Any]:
        cases[name] = load(name, size, settings.n_customers)
        return {"data": cases[name].provenance(), "alpha": cases[name].alpha}

    def tables() -> dict[str, pd.DataFrame]:
        lines, tuning = compare(cases[name], config)
        return {f"methods_{name}": lines, f"methods_{name}_tuning": tuning}

    STORES[size].compute(f"methods_{name}", settings.describe(config), prepare, tables, again)


def compare(case: Case, config: SideBySide) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All methods on one data set by one thread, and what their grids gave."""
    lines: list[dict[str, Any]] = []
    tuning: list[dict[str, Any]] = []
    for method in METHODS:
        with threadpool_limits(1):
            found = of_method(case, config, method, tuning)
        lines += found
        for line in found:
            print("{data}, {method}, {share}: {after:.4f} {why}".format(**line), flush=True)
    columns = ["data", "method", "n_steps", "noise", "clipping", "score"]
    return pd.DataFrame(lines), pd.DataFrame(tuning, columns=columns)


def of_method(
    case: Case, config: SideBySide, method: str, tuning: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """A line for each share and repeat."""
    n_learned = config.repeats if learns_at_random(method, case) else 1
    try:
        setting = best_setting(case, config, method, tuning)
        contestants = [learned(case, config, method, setting) for _ in range(n_learned)]
    except TooLong:
        why = f"learning took longer than {config.limit:.0f} s"
        return [blank(case, method, share, 0) | {"why": why} for share in SHARES]
    except REFUSALS as error:
        why = f"not offered: {first_sentence(error)}"
        return [blank(case, method, share, 0) | {"why": why} for share in SHARES]
    lines = []
    for share in SHARES:
        for repeat in range(config.repeats):
            rows, n_people = people_of(case, share, [config.seed, repeat])
            about = {"n_people": n_people, "n_rows": len(rows)}
            line = blank(case, method, share, repeat) | about
            contestant = contestants[repeat % n_learned]
            lines.append(line | answered(case, config, contestant, rows))
    return lines


def learned(case: Case, config: SideBySide, method: str, setting: dict[str, float]) -> Contestant:
    with limited(config.limit):
        return MAKERS[method](case, config, **setting)


def best_setting(
    case: Case, config: SideBySide, method: str, tuning: list[dict[str, Any]]
) -> dict[str, float]:
    """The setting of a method's grid with the best score after one person is forgotten.

    It is chosen by the rows to test, which favours the method, and nothing is charged for it. The
    people and the noise of this choice are drawn apart from those of the table. A setting that is
    refused or takes too long has no score; if none has one, the last reason is that of the method.
    """
    grid = grid_of(method, config)
    if len(grid) == 1:
        return grid[0]
    best, most, failure = None, -math.inf, None
    for setting in grid:
        try:
            score = tried(case, config, method, setting)
        except (TooLong, *REFUSALS) as error:
            score, failure = math.nan, error
        tuning.append({"data": case.name, "method": method, **setting, "score": score})
        gain = score if case.is_classification else -score
        if gain > most:
            best, most = setting, gain
    if best is None:
        raise failure or ValueError("no setting of the grid has a score")
    return best


def tried(case: Case, config: SideBySide, method: str, setting: dict[str, float]) -> float:
    """The mean score of a setting after one person is forgotten."""
    contestant = learned(case, config, method, setting)
    scores = []
    for k in range(config.tuning_requests):
        rows, _ = people_of(case, "one person", [9, k])
        with limited(config.limit):
            scores.append(case.score(contestant.answer(rows).theta))
    return float(np.mean(scores))


def people_of(case: Case, share: str, seed: list[int]) -> tuple[np.ndarray, int]:
    """The rows of people who are forgotten together, and how many people they are."""
    everybody = np.unique(case.people)
    count = max(round(SHARES[share] * len(everybody)), 1)
    gone = np.random.default_rng([*seed, count]).choice(everybody, size=count, replace=False)
    return np.flatnonzero(np.isin(case.people, gone)), count


def answered(
    case: Case, config: SideBySide, contestant: Contestant, rows: np.ndarray
) -> dict[str, Any]:
    try:
        with limited(config.limit):
            reply, seconds = timed(contestant.answer, rows)
    except TooLong:
        return {"why": f"an answer took longer than {config.limit:.0f} s"}
    except REFUSALS as error:
        return {"why": f"not offered: {first_sentence(error)}"}
    return {
        "before": case.score(contestant.before),
        "after": case.score(reply.theta),
        "seconds": seconds,
        "epsilon": reply.epsilon,
        "delta": reply.delta,
        "certified": reply.certified,
        "against": reply.against,
        "noise": reply.noise,
    }


def blank(case: Case, method: str, share: str, repeat: int) -> dict[str, Any]:
    return {
        "data": case.name,
        "method": method,
        "share": share,
        "repeat": repeat,
        "measure": case.measure,
        "n_people": 0,
        "n_rows": 0,
        "constant": case.constant(),
        "before": math.nan,
        "after": math.nan,
        "seconds": math.nan,
        "epsilon": math.nan,
        "delta": math.nan,
        "certified": False,
        "against": "",
        "noise": math.nan,
        "why": "",
    }


def first_sentence(error: BaseException) -> str:
    return str(error).split(". ")[0].rstrip(".")
