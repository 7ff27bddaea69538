"""Run the benchmarks: `python -m benchmarks --help`."""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import (
    cluster,
    cyclic,
    desk,
    figures,
    growth,
    history,
    living,
    machine,
    memory,
    plot,
    refit,
    serve,
    smooth,
    table,
    work,
)
from benchmarks.data import SIZES
from benchmarks.options import parse
from benchmarks.stopwatch import Stopwatch, say
from benchmarks.work import Outcome, Plan

JUDGED = (
    "nyu",
    "cyclic",
    "desk",
    "cluster",
    "softmax",
    "refit",
    "living",
    "serve",
)  # the sizes that the figures to reach are for


class Record:
    """The JSON of a run, written after every timing, so that Ctrl-C loses one timing at most."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = {"finished": False, "sizes": {}, "growth": {}}

    def save(self) -> None:
        unfinished = self.path.with_suffix(".part")
        unfinished.write_text(json.dumps(self.content, indent=1))
        os.replace(unfinished, self.path)


def run_size(name: str, options: argparse.Namespace, record: Record) -> None:
    size = SIZES[name]
    plan = Plan.of(
        size,
        repeats=options.repeats,
        literal_steps=options.literal_steps,
        exact_rows=options.exact_rows,
        patience=options.patience,
        full=options.full,
    )
    outcome = Outcome()
    entry: dict[str, Any] = {"size": asdict(size), "plan": asdict(plan), "memory": None}
    entry["load"] = [machine.load()]
    others = machine.Others()
    record.content["sizes"][name] = entry

    def save() -> None:
        judged = name in JUDGED
        entry["rows"] = figures.rows(size, plan, outcome, entry["memory"], judged=judged)
        entry.update(asdict(outcome))
        record.save()

    began, finished = time.monotonic(), False
    try:
        kinds = (size.b, size.desk, size.cluster, size.smooth, size.refit, size.living, size.serve)
        in_memory = not any(kinds)
        if in_memory and not options.no_memory and memory.is_measurable():
            entry["memory"] = memory.peaks(name, None if options.full else options.memory_seconds)
            save()
        measure = work.measure if size.b is None else cyclic.measure
        measure = desk.measure if size.desk else measure
        measure = cluster.measure if size.cluster else measure
        measure = smooth.measure if size.smooth else measure
        measure = refit.measure if size.refit else measure
        measure = living.measure if size.living else measure
        measure = serve.measure if size.serve else measure
        measure(size, plan, Stopwatch(outcome.times, name, save), outcome)
        finished = True
    finally:
        entry["others"] = others.cores()
        entry["load"].append(machine.load())
        entry["took"] = time.monotonic() - began
        save()
        print(f"\n{name}: {size}")
        if finished:
            quiet = not record.content["busy"] and machine.is_quiet(entry["others"])
            history.add(options.out, record.content["machine"], name, entry, quiet=quiet)
        print(table.text(entry["rows"]))
        for note in table.notes(size, plan, outcome.counts, entry["memory"]):
            print(note)
        print(_circumstances(entry), flush=True)


def run_growth(options: argparse.Namespace, record: Record) -> None:
    found: dict[str, Any] = {"base": asdict(growth.BASE), "curves": {}, "load": [machine.load()]}
    record.content["growth"] = found
    began = time.monotonic()
    try:
        growth.measure(options.repeats, record.save, found["curves"])
    finally:
        found["summary"] = growth.summary(found["curves"])
        found["load"].append(machine.load())
        found["took"] = time.monotonic() - began
        record.save()
        print(f"\nGrowth around {growth.BASE}; R is the size of a group request")
        print(growth.text(found["summary"]))
        print(_circumstances(found), flush=True)
    if options.plot:
        plot.draw(found["curves"], options.out / "growth.png")


def _circumstances(entry: dict[str, Any]) -> str:
    took = f"Took {entry['took'] / 60:.1f} minutes"
    before, after = entry["load"]
    if before is None or after is None:
        return took + "."
    text = f"{took}; load {before[0]:.1f} before and {after[0]:.1f} after."
    others = entry.get("others")
    if others is None or machine.is_quiet(others):
        return text
    return f"{text}\nOthers kept {others:.1f} cores busy meanwhile: do not trust these figures."


def main() -> int:
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    record = Record(options.out / f"{options.name}.json")
    record.content["machine"] = machine.describe()
    record.content["load_before"] = machine.load()
    busy = machine.complaint_of_load()
    record.content["busy"] = bool(busy)
    print(machine.sentence(record.content["machine"]), flush=True)
    say(busy, end="")
    try:
        for name in options.sizes:
            run_size(name, options, record)
        if not options.no_growth:
            run_growth(options, record)
        record.content["finished"] = True
    except KeyboardInterrupt:
        say(f"\nInterrupted; what was finished is in {record.path}.")
    finally:
        record.content["load_after"] = machine.load()
        record.save()
    print(f"\n{busy}All raw times: {record.path}; all ratios since the first run: {history.NAME}")
    return 0 if record.content["finished"] else 130


if __name__ == "__main__":
    sys.exit(main())
