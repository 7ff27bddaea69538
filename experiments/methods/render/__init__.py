"""Every picture of this study, from stored tables."""

from pathlib import Path

from experiments.methods.render import exposures, reconstruction, side_by_side
from experiments.store import Store

PICTURES = (
    "methods_side_by_side",
    "methods_exposure",
    "methods_reconstruction",
    "methods_likeness",
)


def render(store: Store, folder: Path) -> None:
    """Draw all of them."""
    for part in (side_by_side, exposures, reconstruction):
        part.render(store, folder)
