"""The command `fit`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from pilu.cli.answers import print_answer, print_warning
from pilu.cli.options import Json, Returned, WithoutForgotten, bytes_of, number_or_auto, refuse_if

_REFIT = "With --method refit: "
_LANGEVIN = "With --method langevin: "


def fit(
    table: Annotated[
        str,
        typer.Argument(
            help="A file, a folder, a pattern such as 'data/*.parquet', or a database "
            "(duckdb:///..., postgresql://...)."
        ),
    ],
    target: Annotated[list[str], typer.Option(help="The column to predict.")],
    out: Annotated[Path, typer.Option(help="The store to make: a new folder.")],
    subject: Annotated[
        str | None, typer.Option(help="Column that names the person a row belongs to.")
    ] = None,
    id: Annotated[str | None, typer.Option(help="Column with a unique name for each row.")] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Column to leave out; repeat it for several.")
    ] = None,
    method: Annotated[
        str, typer.Option(help="How the store forgets: refit, or langevin (the paper's way).")
    ] = "refit",
    model: Annotated[
        str | None,
        typer.Option(help=_REFIT + "auto, ridge, logistic, poisson, ... Default: auto."),
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(
            help="The penalty, a number. With --method refit also auto: chosen by "
            "cross-validation, split by person."
        ),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(help=_REFIT + "column with the weight of each row.")
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Option(help=_REFIT + "column of free text, used by its words; repeat it."),
    ] = None,
    categories: Annotated[
        list[str] | None,
        typer.Option(help=_REFIT + "column used by its levels, even if it is a number; repeat it."),
    ] = None,
    pipeline: Annotated[
        str | None,
        typer.Option(
            help=_REFIT + "your own, as mine.py:make, a function that returns an unfitted "
            "scikit-learn estimator."
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help=_REFIT + "epsilon of every certificate. Default: 0.1.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help=_REFIT + "delta of every certificate. Default: 1e-9.")
    ] = None,
    successor_of: Annotated[
        Path | None,
        typer.Option(help=_REFIT + "a store whose forgotten people are not learned again."),
    ] = None,
    returned: Returned = None,
    without_forgotten: WithoutForgotten = False,
    classify: Annotated[
        bool, typer.Option("--classify", help=_LANGEVIN + "the target is a class.")
    ] = False,
    loss: Annotated[
        str | None, typer.Option(help=_LANGEVIN + "squared (ridge), logistic or huber.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help=_LANGEVIN + "where the huber loss becomes linear.")
    ] = None,
    n_auxiliary_runs: Annotated[
        int | None,
        typer.Option(
            "--auxiliary-runs",
            help=_LANGEVIN + "runs that bound the sensitivities of a logistic or huber loss.",
        ),
    ] = None,
    n_steps: Annotated[
        int | None, typer.Option("--learning-steps", help=_LANGEVIN + "learning steps, T.")
    ] = None,
    noise: Annotated[
        float | None, typer.Option(help=_LANGEVIN + "noise of each learning step. Default: 0.01.")
    ] = None,
    budget_epsilon: Annotated[
        float | None,
        typer.Option(help=_LANGEVIN + "the most epsilon that requests may add up to. Default: 10."),
    ] = None,
    budget_delta: Annotated[
        float | None,
        typer.Option(
            help=_LANGEVIN + "the most delta that requests may add up to. Default: 20 / rows."
        ),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help=_LANGEVIN + "the most memory to use, such as 2GB.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help=_LANGEVIN + "learn on a dask cluster: its scheduler's address, or local"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Learn from a table as it is, into a new store."""
    refits: dict[str, Any] = {
        "model": model,
        "weight": weight,
        "words": words,
        "categories": categories,
        "pipeline": pipeline,
        "epsilon": epsilon,
        "delta": delta,
        "successor_of": successor_of,
        "returned": returned,
        "without_forgotten": without_forgotten or None,
    }
    chains: dict[str, Any] = {
        "classify": classify or None,
        "loss": loss,
        "threshold": threshold,
        "n_auxiliary_runs": n_auxiliary_runs,
        "n_steps": n_steps,
        "noise": noise,
        "budget_epsilon": budget_epsilon,
        "budget_delta": budget_delta,
        "memory": memory,
        "scheduler": scheduler,
    }
    options = {"n_auxiliary_runs": "--auxiliary-runs", "n_steps": "--learning-steps"}
    _refuse_strange(method, chains if method == "refit" else refits, options)
    own = {
        name: value
        for name, value in (refits if method == "refit" else chains).items()
        if value is not None
    }
    columns: dict[str, Any] = {"id": id, "subject": subject, "ignore": tuple(ignore or ())}
    if method == "langevin":
        _fit_chain(out, table, target, columns, alpha, own, as_json)
    else:
        _fit_refit(out, table, target, columns, alpha, own, method, as_json)


def _refuse_strange(method: str, strange: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """Refuse options of the other method, all of them at once."""
    other = "langevin" if method == "refit" else "refit"
    refuse_if(
        {
            f"{names.get(name, '--' + name.replace('_', '-'))} must come with --method {other}, "
            f"got --method {method}.": value is not None
            for name, value in strange.items()
        }
    )


def _fit_refit(
    out: Path,
    table: str,
    target: list[str],
    columns: dict[str, Any],
    alpha: str | None,
    own: dict[str, Any],
    method: str,
    as_json: bool,
) -> None:
    from pilu.desk.desk import Desk

    refuse_if(
        {
            "--target must be given once for --method refit.": len(target) != 1,
            "--model and --alpha must be left out with --pipeline, which has its own.": (
                "pipeline" in own and ("model" in own or alpha is not None)
            ),
        }
    )
    if alpha is not None:
        own["alpha"] = number_or_auto("alpha", alpha)
    with Desk.fit(out, table, method=method, target=target[0], **columns, **own) as desk:
        log, learned = desk.log(), desk.learned  # type: ignore[attr-defined]
    record = log.entries[0].record
    for warning in learned.warnings:
        print_warning(warning)
    steps = "\n".join(f"  {step}" for step in learned.steps)
    print_answer(
        {
            **record,
            "folder": str(out),
            "head": str(log.head),
            "steps": list(learned.steps),
            "warnings": list(learned.warnings),
        },
        f"{out}: learned from {learned.n_rows:,} rows of {learned.n_people:,} people.\n{steps}\n"
        f"Score: {learned.score.words}\nNote the head of the log: {log.head}",
        as_json,
    )


def _fit_chain(
    out: Path,
    table: str,
    target: list[str],
    columns: dict[str, Any],
    alpha: str | None,
    own: dict[str, Any],
    as_json: bool,
) -> None:
    from pilu.data.table import Columns
    from pilu.desk.langevin_desk import LangevinDesk

    loss = own.get("loss", "squared")
    refuse_if(
        {
            "--auxiliary-runs must come with --loss logistic or huber, got --loss squared.": (
                "n_auxiliary_runs" in own and loss == "squared"
            ),
            f"--threshold must come with --loss huber, got --loss {loss}.": (
                "threshold" in own and loss != "huber"
            ),
            "--alpha must be a number for --method langevin, got auto.": alpha == "auto",
        }
    )
    classify = bool(own.pop("classify", False)) or loss == "logistic"
    if "memory" in own:
        own["memory"] = bytes_of(own["memory"])
    if alpha is not None:
        own["alpha"] = number_or_auto("alpha", alpha)
    own.setdefault("noise", 0.01)
    meaning = Columns(
        tuple(target),
        columns["id"],
        columns["subject"],
        classify=classify,
        ignored=columns["ignore"],
    )
    with LangevinDesk.create(out, table, meaning, **own) as desk:
        log = desk.log()
    record = log.entries[0].record
    print_answer(
        {**record, "folder": str(out), "head": str(log.head)},
        f"{out}: learned from {record['n_rows']:,} rows of {record['n_features']:,} features.\n"
        f"Note the head of the log: {log.head}",
        as_json,
    )
