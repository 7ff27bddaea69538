"""Every error and warning that pilu raises on purpose; anything else that escapes is a bug.

PiluError
|-- WrongInput            an argument, an option or a file is not what it must be (a ValueError)
|   |-- WrongArgument     an argument is out of its range; the error knows the argument's name
|   `-- WrongTable        a table cannot be used as it is; the error lists all of its problems
|-- BeyondPrecision       double precision cannot certify this (an ArithmeticError)
|-- AlreadyForgotten      the row was forgotten before; nothing was changed
|-- RowsNotAttached       the model was loaded without its rows; pass them to `attach`
|-- RowsChanged           rows differ from those the model was fitted on
|-- NoiseBelowPrecision   the noise would be lost in the rounding of the parameters
|-- CertificateMismatch   a certificate contradicts itself or the model
|-- LedgerMismatch        a log, a head or a proof contradicts an earlier record
|-- BudgetSpent           a request would exceed a store's budget; nothing was changed
|-- DoneBefore            a change with this reference is in the log already
|-- DoneWithTrouble       the change was made, but something failed afterwards
|-- StoreDamaged          a file of a store cannot be read or written; the message names it
|-- DatabaseFailed        the service's database refuses, or cannot be reached; nothing was changed
|-- ClusterLost           the connection to a dask scheduler or its workers was lost
|-- DatasetUnavailable    a file could not be obtained; the message says what to run
|-- MissingExtra          an optional dependency is not installed (an ImportError)
`-- UnsupportedPlatform   a part of pilu does not run on this platform (an ImportError)

UserWarning
|-- PartOfPersonWarning   rows were named that are a part of a person's; the others stay
`-- TotalBudgetWarning    requests since the last redraw add up to a total that promises little

A fit that has not converged warns with scikit-learn's `ConvergenceWarning`.
"""

from collections.abc import Sequence

__all__ = [
    "AlreadyForgotten",
    "BeyondPrecision",
    "BudgetSpent",
    "CertificateMismatch",
    "ClusterLost",
    "DatabaseFailed",
    "DatasetUnavailable",
    "DoneBefore",
    "DoneWithTrouble",
    "LedgerMismatch",
    "MissingExtra",
    "NoiseBelowPrecision",
    "PartOfPersonWarning",
    "PiluError",
    "RowsChanged",
    "RowsNotAttached",
    "StoreDamaged",
    "TotalBudgetWarning",
    "UnsupportedPlatform",
    "WrongArgument",
    "WrongInput",
    "WrongTable",
]


class PiluError(Exception):
    """Base of all errors that pilu raises on purpose."""


class WrongInput(PiluError, ValueError):
    """An argument, an option or a file is not what it must be; the message says what to change."""


class WrongArgument(WrongInput):
    """An argument is out of its range: ``<name> must be <range>, got <name>=<value>. <remedy>``."""

    def __init__(self, name: str, allowed: str, value: object, remedy: str = "") -> None:
        super().__init__(name, allowed, value, remedy)
        self.name, self.allowed, self.value, self.remedy = name, allowed, value, remedy

    def __str__(self) -> str:
        return self.under(self.name)

    def under(self, name: str) -> str:
        """The message with another name for the argument, such as a command-line option."""
        text = f"{name} must be {self.allowed}, got {name}={self.value!r}."
        return f"{text} {self.remedy}" if self.remedy else text


class WrongTable(WrongInput):
    """A table cannot be used as it is: all of its problems at once, each with what to change."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(problems)
        self.problems = list(problems)

    def __str__(self) -> str:
        count = "a problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        rows = " (rows are counted from 1, without the header)"
        said = rows if any(" row " in problem for problem in self.problems) else ""
        return "\n".join([f"the table has {count}{said}:", *(f"- {p}" for p in self.problems)])


class BeyondPrecision(PiluError, ArithmeticError):
    """Double precision cannot certify this; the message says what to change."""


class AlreadyForgotten(PiluError):
    """A requested row was forgotten before."""


class RowsNotAttached(PiluError):
    """The call needs the training rows, and the model does not hold them."""


class RowsChanged(PiluError):
    """Rows passed to the model are not those that it was fitted on."""


class NoiseBelowPrecision(PiluError):
    """One step's noise is too close to the rounding unit of the parameters to hide anything."""


class CertificateMismatch(PiluError):
    """A certificate's numbers, hashes or parameters contradict each other."""


class LedgerMismatch(PiluError):
    """A log, a head or a proof contradicts an earlier record."""


class BudgetSpent(PiluError):
    """A request would exceed a store's budget; the message says how to redraw."""


class DoneBefore(PiluError):
    """A change with this reference is in the log already; nothing was changed."""


class DoneWithTrouble(PiluError):
    """A store was changed, but something failed afterwards; the message says what."""


class StoreDamaged(PiluError):
    """A file of a store is damaged, in use or not writable; nothing was changed."""


class DatabaseFailed(PiluError):
    """The database of the service refuses something, or cannot be reached."""


class ClusterLost(PiluError):
    """The connection to a dask scheduler, or to all of its workers, was lost."""


class DatasetUnavailable(PiluError):
    """A file could not be obtained; the message says what to run."""


class MissingExtra(PiluError, ImportError):
    """An optional dependency is missing; the message names the extra to install."""


class UnsupportedPlatform(PiluError, ImportError):
    """A part of pilu does not run on this platform; the message names both."""


class PartOfPersonWarning(UserWarning):
    """Rows of a request are a part of a person's rows; the others stay in the model."""


class TotalBudgetWarning(UserWarning):
    """The total delta of the requests since the last redraw promises little."""
