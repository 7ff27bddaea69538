"""`pilu`: fit a table into a store, quote, forget, verify (needs the extra ``pilu[desk]``).

Heavy modules are imported only by the commands that need them, so that `--help` and `ledger` are
fast.
"""

from collections.abc import Callable
from typing import Annotated

import typer

from pilu.cli import actions, records
from pilu.cli.answers import debugging, in_one_line
from pilu.cli.demo import demo

app = typer.Typer(
    name="pilu",
    help="Make a trained linear model forget a person, and prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

COMMANDS: dict[Callable[..., None], str] = {
    demo: "pilu demo --out demo-output",
    actions.fit: "pilu fit people.parquet --target y --id row --subject person --out store",
    actions.quote: "pilu quote store --subject anna --subject ben --epsilon 1",
    actions.unlearn: "pilu unlearn store --subject anna --epsilon 1",
    actions.request: "pilu request store --subject anna --due 2027-01-31",
    actions.run: "pilu run store --epsilon 1 --redraw-if-needed",
    actions.redraw: "pilu redraw store",
    records.verify: "pilu verify receipt.json --store store --public-key desk.pub",
    records.ledger: "pilu ledger store --since 3:5f1c...",
    records.table: "pilu table store --rewrite people.parquet",
    records.release: "pilu release store --out model.json",
    records.predict: "pilu predict store --rows new.csv --out predicted.csv",
    records.report: "pilu report store --out report.html",
    records.keygen: "pilu keygen --private desk.key --public desk.pub",
}

for command, example in COMMANDS.items():
    app.command(name=command.__name__, epilog=f"Example: `{example}`")(in_one_line(command))


@app.callback()
def options(
    debug: Annotated[bool, typer.Option(help="Show the traceback of every error.")] = False,
) -> None:
    """Options that precede the command."""
    debugging.set(debug)
