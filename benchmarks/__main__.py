"""What pilu costs, as ratios to references timed in the same run: BLAS and LAPACK on the same
arrays, and the paper's Algorithm 1 taken literally. docs/benchmarks.md says how to read it."""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import growth, machine, memory, plot, table
from benchmarks.data import SIZES
from benchmarks.stopwatch import Stopwatch, say
from benchmarks.work import Plan, measure

JUDGED = "nyu"  # the size that the figures to reach are for


class Record:
    """The JSON of a run, written after every timing, so that Ctrl-C loses one timing at most."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = {"finished": False, "sizes": {}, "growth": {}}

    def save(self) -> None:
        unfinished = self.path.with_suffix(".part")
        unfinished.write_text(json.dumps(self.content, indent=1))
        os.replace(unfinished, self.path)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--sizes", nargs="*", default=["nyu", "mnist"], choices=[*SIZES])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--literal-steps", type=int, help="steps of Algorithm 1 per timing; default a tenth of it"
    )
    parser.add_argument(
        "--exact-rows", type=int, help="time the exact quote on as many listed rows and scale up"
    )
    parser.add_argument(
        "--memory-seconds",
        type=float,
        default=60.0,
        help="how long the exact quote's memory is watched",
    )
    parser.add_argument("--full", action="store_true", help="scale nothing, repeat everything")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--no-growth", action="store_true")
    parser.add_argument("--plot", action="store_true", help="draw the growth curves")
    parser.add_argument("--out", type=Path, default=Path("bench-output"))
    parser.add_argument("--name", default="bench", help="of the JSON file in --out")
    options = parser.parse_args(arguments)
    for name in ("repeats", "literal_steps", "exact_rows"):
        given = getattr(options, name)
        if given is not None and given < 1:
            parser.error(f"{name} must be at least 1, got {name}={given}.")
    return options


def run_size(name: str, options: argparse.Namespace, record: Record) -> None:
    size = SIZES[name]
    plan = Plan.of(size, options.repeats, options.literal_steps, options.exact_rows, options.full)
    entry: dict[str, Any] = {
        "size": asdict(size),
        "plan": asdict(plan),
        "times": {},
        "single_deletions": [],
        "memory": None,
        "rows": [],
        "load": [machine.load()],
    }
    record.content["sizes"][name] = entry

    def save() -> None:
        entry["rows"] = table.rows(
            size, plan, entry["times"], entry["memory"], judged=name == JUDGED
        )
        record.save()

    began = time.monotonic()
    try:
        if not options.no_memory and memory.is_measurable():
            entry["memory"] = memory.peaks(name, None if options.full else options.memory_seconds)
            save()
        measure(size, plan, Stopwatch(entry["times"], name, save), entry["single_deletions"])
    finally:
        entry["load"].append(machine.load())
        entry["took"] = time.monotonic() - began
        save()
        print(f"\n{name}: " + ", ".join(f"{k} = {v}" for k, v in asdict(size).items()))
        print(table.text(entry["rows"]))
        for note in table.notes(size, plan, entry["memory"]):
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
        base = ", ".join(f"{k} = {v}" for k, v in asdict(growth.BASE).items())
        print(f"\nGrowth around {base}; R is the size of a group request")
        print(growth.text(found["summary"]))
        print(_circumstances(found), flush=True)
    if options.plot:
        plot.draw(found["curves"], options.out / "growth.png")


def _circumstances(entry: dict[str, Any]) -> str:
    took = f"Took {entry['took'] / 60:.1f} minutes"
    before, after = entry["load"]
    if before is None or after is None:
        return took + "."
    cores = os.cpu_count() or 1
    text = f"{took}; load {before[0]:.1f} before and {after[0]:.1f} after, on {cores} cores."
    if before[0] > cores / 2:
        text += " The machine was busy with other things: do not trust these figures."
    return text


def main() -> int:
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    record = Record(options.out / f"{options.name}.json")
    record.content["machine"] = machine.describe()
    record.content["load_before"] = machine.load()
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
    print(f"\nAll raw times: {record.path}")
    return 0 if record.content["finished"] else 130


if __name__ == "__main__":
    sys.exit(main())
