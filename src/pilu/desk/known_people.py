"""Who is in a store and who was forgotten, by keyed hashes: read without the model.

It imports no scikit-learn, so a service can ask without it.
"""

from pilu.data.names import Names
from pilu.exceptions import StoreDamaged
from pilu.store.store import Snapshot, Store
from pilu.store.subjects import forgotten_people


def method_of(snapshot: Snapshot) -> str:
    """By which method a store forgets."""
    return str(snapshot.state.get("method", "langevin"))


def rows_of_people(snapshot: Snapshot) -> dict[bytes, list[int]]:
    """Everybody in the model, with their rows."""
    if "names_subject" not in snapshot.arrays:
        raise StoreDamaged(f"{snapshot.folder} does not know whose its rows are.")
    return Names({"subject": snapshot.arrays["names_subject"]}).by_hash("subject")


def forgotten_by(store: Store, snapshot: Snapshot) -> frozenset[bytes]:
    """Everybody who was forgotten and has not come back."""
    if "suppressed" in snapshot.arrays:
        return frozenset(row.tobytes() for row in snapshot.arrays["suppressed"])
    with store.ledger.reading() as ledger:
        return frozenset(forgotten_people(ledger))
