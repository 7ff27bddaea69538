"""Every command, on bundled data: what `make demo` runs."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from pilu.exceptions import WrongArgument

_ROWS_PER_PERSON = 5


def demo(
    out: Annotated[Path, typer.Option(help="The folder for all results.")] = Path("demo-output"),
) -> None:
    """Run every command on scikit-learn's digits: fit, quote, forget, verify, report."""
    from pilu.cli.app import app

    if out.exists() and any(out.iterdir()):
        raise WrongArgument("out", "a new or empty folder", str(out), "Remove it first.")
    out.mkdir(parents=True, exist_ok=True)
    _write_digits(out / "people.parquet", out / "new.csv")
    store = out / "store"
    steps = (
        "keygen --private {out}/desk.key --public {out}/desk.pub",
        "fit {out}/people.parquet --target digit --classify --id image --subject person "
        "--alpha 1 --learning-steps 800 --out {store}",
        "quote {store} --subject anna --subject ben",
        "unlearn {store} --subject anna --receipt {out}/anna.json --sign {out}/desk.key",
        "verify {out}/anna.json --store {store} --table {out}/people.parquet "
        "--public-key {out}/desk.pub",
        "request {store} --subject ben --due 2027-01-31",
        "request {store} --subject person-7",
        "run {store} --receipt {out}/night.json",
        "table {store} --rewrite {out}/people.parquet",
        "verify {store} --table {out}/people.parquet",
        "release {store} --out {out}/model.json",
        "predict {store} --rows {out}/new.csv --out {out}/predicted.csv",
        "ledger {store}",
        "report {store} --out {out}/report.html",
        "redraw {store} --receipt {out}/redraw.json",
    )
    for step in steps:
        words = [word.format(out=out, store=store) for word in step.split()]
        typer.secho(f"\n$ pilu {shlex.join(words)}", bold=True)
        app(words, standalone_mode=False)
    typer.echo(f"\nOpen {out / 'report.html'} in a browser.")


def _write_digits(table: Path, new: Path) -> None:
    """Write scikit-learn's digits with invented people; the last rows are the new ones."""
    from sklearn.datasets import load_digits

    from pilu._extras import need

    arrow = need("pyarrow", for_="the demo", extra="desk")
    parquet = need("pyarrow.parquet", for_="the demo", extra="desk")
    csv = need("pyarrow.csv", for_="the demo", extra="desk")
    X, y = load_digits(return_X_y=True)
    pixels = {f"pixel_{k}": X[:, k] / 16.0 for k in range(X.shape[1])}
    people = ["anna", "ben", *(f"person-{k}" for k in range(2, len(X)))]
    whole = arrow.table(
        {
            **pixels,
            "digit": y,
            "image": [f"image-{i}" for i in range(len(X))],
            "person": [people[i // _ROWS_PER_PERSON] for i in range(len(X))],
        }
    )
    n = 1500
    parquet.write_table(whole.slice(0, n), table)
    csv.write_csv(whole.slice(n).select(list(pixels)), new)
