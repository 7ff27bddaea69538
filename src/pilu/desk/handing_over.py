"""Receipts of a change: made, signed and handed over once the change is in the log.

A signature is thus only obtained for what is in the log. What the receipts need stays in the
store's outbox until whoever takes them has returned.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pilu.certify.certificate import Certificate
from pilu.desk.receipt import Receipt, receipts_kept
from pilu.desk.signing import load_key, sign_statement
from pilu.exceptions import DoneWithTrouble, WrongInput
from pilu.store.log import Log
from pilu.store.merkle import Head
from pilu.store.store import Store

Deliver = Callable[[Sequence[Receipt]], object]


@dataclass(frozen=True)
class Outcome:
    """What a change of a store gives.

    Attributes
    ----------
    certificate : Certificate
        The guarantee for the parameters that the store has now.
    receipts : tuple of Receipt
        One for each person who was forgotten; one in all if nobody was.
    place : int
        The entry in the log.
    head : Head
        The log's size and hash after the change.
    notes : tuple of str
        What else the caller should know, in sentences.
    """

    certificate: Certificate
    receipts: tuple[Receipt, ...]
    place: int
    head: Head
    notes: tuple[str, ...] = ()


def hand_over(
    store: Store,
    place: int,
    deliver: Deliver | None,
    sign: Path | None,
    notes: Sequence[str] = (),
    known: Mapping[str, str] | None = None,
) -> Outcome:
    """Make the receipts of an entry of the log, sign them, and hand them over."""
    log, receipts = receipts_of_entry(store, place, known)
    try:
        if sign is not None:  # the same for all: it is about the entry
            envelope = sign_statement(receipts[0], sign)
            receipts = tuple(receipt.signed(envelope) for receipt in receipts)
        if deliver is not None:
            deliver(receipts)
        with store.ledger.writing() as ledger:
            ledger.delivered(place)
    except BaseException as error:  # the change is done: an interrupt must not hide that
        raise DoneWithTrouble(
            "the change is done, but its receipts could not be handed over "
            f"({_reason(error)}). `pilu receipts {store.folder}` writes them."
        ) from error
    return Outcome(receipts[0].certificate, receipts, place, log.head, tuple(notes))


def receipts_of_entry(
    store: Store, place: int, known: Mapping[str, str] | None = None
) -> tuple[Log, tuple[Receipt, ...]]:
    """The receipts of an entry that were not delivered yet, and the log that they are from."""
    with store.ledger.reading() as ledger:
        kept = ledger.outbox().get(place)
        if kept is None:
            raise WrongInput(f"the receipts of entry {place} were delivered already.")
        return ledger.log, receipts_kept(ledger, place, kept, known)


def check_signing_key(sign: Path | None) -> None:
    """Refuse a file that is no private key, before the work starts."""
    if sign is not None:
        load_key(sign, "private")


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
