"""Errors that say in which state something is; wrong arguments are a ``ValueError``.

WrongArgument             an argument is out of its range: a ValueError that knows which one
PiluError
|-- AlreadyForgotten      the row is gone from the model; nothing was changed
|-- RowsNotAttached       the model was loaded without its rows; `attach` gives them back
|-- RowsChanged           rows differ from those the model was fitted on
|-- NoiseBelowPrecision   the noise would be lost in the rounding of the parameters
|-- CertificateMismatch   a certificate disagrees with itself or with the model
|-- LedgerMismatch        a log, a head or a proof disagrees with what was noted
|-- BudgetSpent           a request would go past a store's budget; nothing was changed
|-- DoneWithTrouble       a change is done, and something after it failed
|-- StoreDamaged          a file of a store cannot be read or written; the message says which
|-- ClusterLost           a dask scheduler or its workers went away; nothing was changed
|-- DatasetUnavailable    a file could not be had; the message says what to run
`-- MissingExtra          an optional dependency is not installed (an ImportError too)
"""

__all__ = [
    "AlreadyForgotten",
    "BudgetSpent",
    "CertificateMismatch",
    "ClusterLost",
    "DatasetUnavailable",
    "DoneWithTrouble",
    "LedgerMismatch",
    "MissingExtra",
    "NoiseBelowPrecision",
    "PiluError",
    "RowsChanged",
    "RowsNotAttached",
    "StoreDamaged",
    "WrongArgument",
]


class WrongArgument(ValueError):
    """An argument is out of its range: ``<name> must be <range>, got <name>=<value>. <remedy>``."""

    def __init__(self, name: str, allowed: str, value: object, remedy: str = "") -> None:
        super().__init__(name, allowed, value, remedy)
        self.name, self.allowed, self.value, self.remedy = name, allowed, value, remedy

    def __str__(self) -> str:
        return self.under(self.name)

    def under(self, name: str) -> str:
        """The message with the argument under another name, as a command line's option."""
        text = f"{name} must be {self.allowed}, got {name}={self.value!r}."
        return f"{text} {self.remedy}" if self.remedy else text


class PiluError(Exception):
    """Base of pilu's own errors."""


class AlreadyForgotten(PiluError):
    """A requested row has been forgotten before."""


class RowsNotAttached(PiluError):
    """The model does not hold its training rows, and the call needs them."""


class RowsChanged(PiluError):
    """Rows handed to the model are not those that it was fitted on."""


class NoiseBelowPrecision(PiluError):
    """One step's noise is too close to the rounding unit of the parameters to hide anything."""


class CertificateMismatch(PiluError):
    """A certificate's numbers, hashes or parameters disagree."""


class LedgerMismatch(PiluError):
    """A log, a head or a proof disagrees with what was noted before."""


class BudgetSpent(PiluError):
    """A request would go past what a store may spend; the message says how to redraw."""


class DoneWithTrouble(PiluError):
    """A change of a store is done, and something after it failed; the message says what."""


class StoreDamaged(PiluError):
    """A file of a store is damaged, in use or not writable; nothing was changed."""


class ClusterLost(PiluError):
    """A dask scheduler, or all of its workers, went away in the middle of a computation."""


class DatasetUnavailable(PiluError):
    """A file could not be had; the message says what to run."""


class MissingExtra(PiluError, ImportError):
    """An optional dependency is missing; the message names the extra to install."""
