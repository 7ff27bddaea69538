"""The command `fit`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pilu._digits import near
from pilu.cli.answers import print_answer, print_warning
from pilu.cli.options import (
    Json,
    Returned,
    WithoutForgotten,
    bytes_of,
    langevin_option,
    number_or_auto,
    option_names,
    refit_option,
    refuse_if,
    refuse_options,
)
from pilu.exceptions import WrongArgument
from pilu.report.entries import count


def fit(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="A file, a folder, a pattern such as 'data/*.parquet', or a database "
            "(duckdb:///..., postgresql://...).",
        ),
    ],
    target: Annotated[list[str], typer.Option(metavar="COLUMN", help="The column to predict.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The store to make: a new folder.")],
    subject: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column that names the person a row belongs to."),
    ] = None,
    id: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column with a unique name for each row.")
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column to leave out; repeat it for several."),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="How the store forgets: refit, or langevin (the paper's way)."
        ),
    ] = "refit",
    alpha: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help="The penalty. With --method refit also auto: chosen by cross-validation, split "
            "by person.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        refit_option(metavar="NAME", help="auto, ridge, logistic, poisson, ... Default: auto."),
    ] = None,
    weight: Annotated[
        str | None, refit_option(metavar="COLUMN", help="Column with the weight of each row.")
    ] = None,
    words: Annotated[
        list[str] | None,
        refit_option(
            metavar="COLUMN", help="Column of free text, used by its words; repeat it for several."
        ),
    ] = None,
    categories: Annotated[
        list[str] | None,
        refit_option(
            metavar="COLUMN",
            help="Column used by its levels, even if it is a number; repeat it for several.",
        ),
    ] = None,
    pipeline: Annotated[
        str | None,
        refit_option(
            metavar="FILE:NAME",
            help="Your own model, as mine.py:make: a function that returns an unfitted "
            "scikit-learn estimator.",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        refit_option(metavar="NUMBER", help="epsilon of every certificate. Default: 0.1."),
    ] = None,
    delta: Annotated[
        float | None,
        refit_option(metavar="NUMBER", help="delta of every certificate. Default: 1e-9."),
    ] = None,
    successor_of: Annotated[
        Path | None,
        refit_option(metavar="STORE", help="A store whose forgotten people are not learned again."),
    ] = None,
    returned: Returned = None,
    without_forgotten: WithoutForgotten = None,
    classify: Annotated[
        bool | None, langevin_option("--classify", metavar="", help="The target is a class.")
    ] = None,
    loss: Annotated[
        str | None, langevin_option(metavar="NAME", help="squared (ridge), logistic or huber.")
    ] = None,
    threshold: Annotated[
        float | None, langevin_option(metavar="NUMBER", help="Where the huber loss becomes linear.")
    ] = None,
    n_auxiliary_runs: Annotated[
        int | None,
        langevin_option(
            "--auxiliary-runs",
            metavar="NUMBER",
            help="Runs that bound the sensitivities of a logistic or huber loss.",
        ),
    ] = None,
    n_steps: Annotated[
        int | None, langevin_option("--learning-steps", metavar="NUMBER", help="Learning steps, T.")
    ] = None,
    noise: Annotated[
        float | None,
        langevin_option(metavar="NUMBER", help="Noise of each learning step. Default: 0.01."),
    ] = None,
    budget_epsilon: Annotated[
        float | None,
        langevin_option(
            metavar="NUMBER", help="The most epsilon that requests may add up to. Default: 10."
        ),
    ] = None,
    budget_delta: Annotated[
        float | None,
        langevin_option(
            metavar="NUMBER",
            help="The most delta that requests may add up to. Default: 20 / rows.",
        ),
    ] = None,
    memory: Annotated[
        str | None, langevin_option(metavar="SIZE", help="The most memory to use, such as 2GB.")
    ] = None,
    scheduler: Annotated[
        str | None,
        langevin_option(
            metavar="ADDRESS",
            help="Learn on a dask cluster: the address of its scheduler, or local.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Learn from a table as it is, into a new store."""
    own: dict[str, dict[str, Any]] = {
        "refit": {
            "model": model,
            "weight": weight,
            "words": words,
            "categories": categories,
            "pipeline": pipeline,
            "epsilon": epsilon,
            "delta": delta,
            "successor_of": successor_of,
            "returned": returned,
            "without_forgotten": without_forgotten,
        },
        "langevin": {
            "classify": classify,
            "loss": loss,
            "threshold": threshold,
            "n_auxiliary_runs": n_auxiliary_runs,
            "n_steps": n_steps,
            "noise": noise,
            "budget_epsilon": budget_epsilon,
            "budget_delta": budget_delta,
            "memory": memory,
            "scheduler": scheduler,
        },
    }
    if method not in own:
        raise WrongArgument("method", "refit or langevin", method)
    (other,) = own.keys() - {method}
    reason = f"must come with --method {other}, got --method {method}."
    refuse_options(own[other], option_names(fit), reason)
    given = {name: value for name, value in own[method].items() if value is not None}
    columns: dict[str, Any] = {"id": id, "subject": subject, "ignore": tuple(ignore or ())}
    fit_into = _fit_chain if method == "langevin" else _fit_refit
    fit_into(out, table, target, columns, alpha, given, as_json)


def _fit_refit(
    out: Path,
    table: str,
    target: list[str],
    columns: dict[str, Any],
    alpha: str | None,
    own: dict[str, Any],
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
    with Desk.fit(out, table, target=target[0], **columns, **own) as desk:
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
        f"{out}: learned from {count(learned.n_rows, 'row')} of "
        f"{count(learned.n_people, 'person', 'people')}.\n{steps}\n"
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
        log, (metric, value, constant) = desk.log(), desk.score()
    record = log.entries[0].record
    if not value > constant:
        print_warning(
            "the model is not better than a constant. Bring the columns to similar sizes, take "
            "more steps, or use --method refit."
        )
    print_answer(
        {
            **record,
            "folder": str(out),
            "head": str(log.head),
            "score": {"metric": metric, "value": value, "constant": constant},
        },
        f"{out}: learned from {count(record['n_rows'], 'row')} with "
        f"{count(record['n_features'], 'feature')}.\n"
        f"{metric} on rows that were learned: {near(value)}; a constant gets {near(constant)}.\n"
        f"Note the head of the log: {log.head}",
        as_json,
    )
