"""Every command, on made-up customers: what `make demo` runs."""

import shlex
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from pilu.exceptions import WrongArgument

_STEPS = (
    "keygen --private {out}/desk.key --public {out}/desk.pub",
    "fit {out}/customers.parquet --target churned --subject customer --id row --out {store}",
    "quote {store} --subject c00001",
    "unlearn {store} --subject c00001 --receipt {out}/c00001.json --sign {out}/desk.key",
    "verify {out}/c00001.json --store {store} --table {out}/customers.parquet "
    "--public-key {out}/desk.pub",
    "letter {out}/c00001.json --out {out}/c00001.html --company Example",
    "request {store} --subject c00002 --subject c00003 --due {due}",
    "run {store} --receipt {out}/night --sign {out}/desk.key",
    "backup {store} --out {out}/backup.tar",
    "unlearn {store} --subject c00004 --receipt {out}/c00004.json",
    "restore {out}/backup.tar --out {out}/restored --forgotten {store}",
    "forgotten {store} --out {out}/forgotten.json",
    "table {store} --rewrite {out}/customers.parquet",
    "add {store} {out}/new.parquet --receipt {out}/added.json",
    "correct {store} {out}/corrected.parquet --receipt {out}/corrected.json",
    "sync {store} --yes",
    "release {store} --out {out}/model.json",
    "release {store} --out {out}/model.skops",
    "predict {store} --rows {out}/new.parquet --out {out}/predicted.csv --probabilities",
    "verify {store}",
    "ledger {store}",
    "report {store} --out {out}/report.html",
    "fit {out}/scaled.parquet --target data --subject customer --id row --method langevin "
    "--alpha 1 --learning-steps 800 --out {out}/langevin",
    "quote {out}/langevin --subject c00005",
    "unlearn {out}/langevin --subject c00005 --receipt {out}/c00005.json",
    "redraw {out}/langevin --receipt {out}/redraw.json",
)


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder for all results.")] = Path(
        "demo-output"
    ),
) -> None:
    """Run every command on made-up customers: fit, forget, add, verify, report."""
    from pilu.cli.app import app

    if out.exists() and any(out.iterdir()):
        raise WrongArgument("out", "a new or empty folder", str(out), "Remove it first.")
    out.mkdir(parents=True, exist_ok=True)
    write_customers(out)
    due = date.today() + timedelta(days=45)
    for step in _STEPS:
        words = [word.format(out=out, store=out / "store", due=due) for word in step.split()]
        typer.secho(f"\n$ pilu {shlex.join(words)}", bold=True)
        app(words, standalone_mode=False)
    typer.echo(f"\nOpen {out / 'report.html'} and {out / 'c00001.html'} in a browser.")


def write_customers(out: Path) -> None:
    """Write a table as companies have them: texts, dates, booleans, missing values."""
    import numpy as np

    from pilu.datasets.customers import make_customers

    X, y, subjects, *_ = make_customers(3_000)
    signup = [date(2021, 1, 1) + timedelta(days=int(days)) for days in X["tenure"]]
    rows = X.assign(churned=y == "left", customer=subjects, signup=signup)
    rows["row"] = [f"r{k}" for k in range(len(rows))]
    old, new = rows.iloc[:2_800], rows.iloc[2_800:]
    corrected = old.iloc[200:202].assign(age=40.0)
    scaled = old[["row", "customer"]].assign(  # by constants: Langevin steps cover no scaler
        usage=np.log(old["usage"]) - 3, calls=old["calls"] / 10, data=np.log(old["data"]) - 3
    )
    tables: dict[str, Any] = {
        "customers": old,
        "new": new,
        "corrected": corrected,
        "scaled": scaled,
    }
    for name, table in tables.items():
        table.to_parquet(out / f"{name}.parquet", index=False)
