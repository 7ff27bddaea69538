"""The command `quote`: what it would cost to forget people."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pilu._digits import near, up
from pilu.cli.answers import describe_left, format_table, opened, print_answer
from pilu.cli.files import check_output, write_whole
from pilu.cli.options import (
    Delta,
    Epsilon,
    Json,
    Steps,
    Store,
    Subject,
    TableNow,
    langevin_option,
    options_of_langevin,
    refuse_if,
)
from pilu.report.entries import count

if TYPE_CHECKING:
    from pilu.report.data import Costs

_MOST_EXPENSIVE = 10  # people that `quote --all` prints


def quote(
    store: Store,
    subject: Subject = None,
    table: TableNow = None,
    everyone: Annotated[
        bool | None,
        langevin_option("--all", metavar="", help="Quote everyone who is still in the model."),
    ] = None,
    out: Annotated[
        Path | None,
        langevin_option(metavar="FILE", help="With --all: a CSV file of all quotes."),
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    n_unlearn_steps: Steps = None,
    as_json: Json = False,
) -> None:
    """Show what forgetting people would cost, without forgetting them."""
    refuse_if(
        {
            "exactly one of --subject and --all must be given.": bool(subject) == bool(everyone),
            "--out must come with --all.": out is not None and not everyone,
        }
    )
    own = {"epsilon": epsilon, "delta": delta, "n_unlearn_steps": n_unlearn_steps}
    with opened(store) as desk:
        options = options_of_langevin(desk, {"everyone": everyone, **own}, quote)
        if desk.method == "refit":
            _print_dry_run(desk, subject, table, as_json)
            return
        options.pop("everyone", None)
        if everyone:
            from pilu.desk.costs import quote_everyone

            if out is not None:
                check_output("out", out, store, inputs=desk.tables())
            costs = quote_everyone(desk.read(), table, **options)  # type: ignore[attr-defined]
            _print_costs(costs, desk, out, as_json)
            return
        quoted = desk.quote(subject or [], table, **options)  # type: ignore[attr-defined]
        left, ends = desk.left(), describe_left(desk)  # type: ignore[attr-defined]
    columns = ["subject", "rows", "noise", "epsilon"]
    lines = [
        [name, len(rows), noise, most]
        for name, rows, noise, most in zip(
            subject or [],
            quoted.requests,
            quoted.noise.tolist(),
            quoted.epsilon.tolist(),
            strict=True,
        )
    ]
    shown = [[line[0], str(line[1]), near(line[2]), up(line[3])] for line in lines]
    if quoted.utility is not None:
        metric, before = quoted.utility.metric, quoted.utility.before
        columns += [f"{metric} before", f"{metric} after"]
        for line, text, after in zip(lines, shown, quoted.utility.after.tolist(), strict=True):
            line += [before, after]
            text += [near(before), near(after)]
    print_answer(
        {
            "quotes": [dict(zip(columns, line, strict=True)) for line in lines],
            "left": {"epsilon": left[0], "delta": left[1]},
        },
        f"{format_table(columns, shown)}\n{ends}",
        as_json,
    )


def _print_dry_run(desk: Any, subject: list[str] | None, table: str | None, as_json: bool) -> None:
    """A refit costs no noise and no budget: show what it would change."""
    found = desk.dry_run(list(dict.fromkeys(subject or ())), table)
    score = found.score
    text = f"{count(found.n_people, 'person', 'people')} with {count(found.n_rows, 'row')}."
    if score is not None:
        text += (
            f" {score['metric']} {score['how']}: {score['value']} after forgetting them, "
            f"{score['before']} before."
        )
    text += f" It takes about {found.seconds:.1f} s. Nothing was changed."
    record = {
        "n_people": found.n_people,
        "n_rows": found.n_rows,
        "score": score,
        "seconds": found.seconds,
    }
    print_answer(record, text, as_json)


def _print_costs(costs: "Costs", desk: Any, out: Path | None, as_json: bool) -> None:
    import numpy as np

    left = desk.left()

    columns = ("subject", "rows", "noise")
    lines = list(zip(costs.names, costs.rows.tolist(), costs.noise.tolist(), strict=True))
    if out is not None:
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows([columns, *lines])
        write_whole(out, file.getvalue())
    most_expensive = sorted(lines, key=lambda line: -line[2])[:_MOST_EXPENSIVE]
    shown = [(name, str(rows), near(noise)) for name, rows, noise in most_expensive]
    least, median, most = np.quantile(costs.noise, (0.0, 0.5, 1.0))
    written = "" if out is None else f"\nAll quotes: {out}"
    print_answer(
        {
            "epsilon": costs.epsilon,
            "delta": costs.delta,
            "n_unlearn_steps": costs.n_unlearn_steps,
            "quotes": [dict(zip(columns, line, strict=True)) for line in lines],
            "left": {"epsilon": left[0], "delta": left[1]},
        },
        f"{len(lines):,} people at epsilon {up(costs.epsilon)}, delta {up(costs.delta)}: noise "
        f"{near(least)} to {near(most)}, median {near(median)}. The most expensive:\n"
        f"{format_table(columns, shown)}\n{describe_left(desk)}{written}",
        as_json,
    )
