"""`pilu`: fit a table into a store, forget people, verify (needs the extra ``pilu[desk]``).

Heavy modules are imported only by the commands that need them, so that `--help` and `ledger` are
fast.
"""

from collections.abc import Callable
from typing import Annotated

import typer

from pilu.cli import backing_up, changes, fitting, quotes, records, serving
from pilu.cli.answers import debugging, in_one_line
from pilu.cli.demo import demo

app = typer.Typer(
    name="pilu",
    help="Make a trained model forget a person, and prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

COMMANDS: dict[Callable[..., None], str] = {
    demo: "pilu demo --out demo-output",
    fitting.fit: "pilu fit people.csv --target churned --subject customer --out store",
    changes.unlearn: "pilu unlearn store --subject anna --receipt anna.json",
    changes.request: "pilu request store --subjects names.txt --due 2027-01-31",
    changes.run: "pilu run store --receipt receipts --sign desk.key",
    changes.add: "pilu add store new.parquet",
    changes.correct: "pilu correct store changed.parquet",
    changes.sync: "pilu sync store --yes",
    changes.receipts: "pilu receipts store",
    quotes.quote: "pilu quote store --subject anna --subject ben",
    changes.redraw: "pilu redraw store",
    records.letter: "pilu letter anna.json --out anna.html",
    records.verify: "pilu verify anna.json --store store --public-key desk.pub",
    records.ledger: "pilu ledger store --since 3:5f1c...",
    records.table: "pilu table store --rewrite people.parquet",
    records.release: "pilu release store --out model.skops",
    records.predict: "pilu predict store --rows new.csv --out predicted.csv",
    records.report: "pilu report store --out report.html",
    records.keygen: "pilu keygen --private desk.key --public desk.pub",
    backing_up.backup: "pilu backup store --out store.tar",
    backing_up.forgotten: "pilu forgotten store --out forgotten.json",
    backing_up.restore: "pilu restore store.tar --out store --forgotten none",
    serving.serve: "pilu serve --stores stores --listen 127.0.0.1:8080",
    serving.work: "pilu work --stores stores",
}

for command, example in COMMANDS.items():
    app.command(name=command.__name__, epilog=f"Example: `{example}`")(in_one_line(command))
app.add_typer(serving.token)


@app.callback()
def options(
    debug: Annotated[
        bool, typer.Option("--debug", metavar="", help="Show the traceback of every error.")
    ] = False,
) -> None:
    """Options that precede the command."""
    debugging.set(debug)
