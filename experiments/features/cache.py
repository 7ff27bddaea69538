"""Features as files: an array in the cache beside a record of what it was computed from.

The work is split into parts. Each is saved as soon as it is done, so an interrupted call resumes.
"""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from experiments.features.weights import Frozen
from pilu._progress import progress_bar
from pilu.datasets.fetch import cache_folder

__all__ = ["Features", "compute_once"]

PART = 256  # images or texts in a part
BATCH = 64

Compute = Callable[[Any], NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Features:
    """Features (n x p, float32) and their provenance."""

    values: NDArray[np.float32]
    provenance: dict[str, Any]


def compute_once(
    kind: str,
    items: Any,
    frozen: Frozen,
    options: dict[str, Any],
    compute: Compute,
    *,
    part: int = PART,
    data: Any = None,
) -> Features:
    """Features of the items, from the cache or by `compute` on one batch after the other.

    The same data, weights and options have the same file; `data` is what the items are taken from
    where they are only numbers of images.
    """
    provenance = {
        "kind": kind,
        "network": frozen.name,
        "weights": frozen.origin,
        "weights_sha256": frozen.sha256,
        "data_sha256": _digest(items if data is None else data),
        **options,
    }
    key = hashlib.sha256(json.dumps(provenance, sort_keys=True).encode()).hexdigest()[:16]
    folder = cache_folder() / "features"
    folder.mkdir(exist_ok=True)
    array = folder / f"{kind}-{frozen.name}-{key}.npy"
    record = array.with_suffix(".json")
    if not array.exists():
        parts = folder / f".part-{key}-{part}"
        values = _compute_parts(items, compute, parts, part)
        versions = {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "python": platform.python_version(),
        }
        content = provenance | {"versions": versions, "shape": values.shape}
        record.write_text(json.dumps(content, indent=1) + "\n")
        _save(array, values)
        shutil.rmtree(parts, ignore_errors=True)
    return Features(np.load(array, mmap_mode="r"), json.loads(record.read_text()))


def _compute_parts(items: Any, compute: Compute, folder: Path, size: int) -> NDArray[np.float32]:
    folder.mkdir(exist_ok=True)
    paths = []
    bar = progress_bar(len(items), what="features", unit="item")
    with bar, torch.inference_mode(), _flushed_denormals():
        for start in range(0, len(items), size):
            path = folder / f"{start}.npy"
            paths.append(path)
            some = items[start : start + size]
            if not path.exists():
                batches = [compute(some[k : k + BATCH]) for k in range(0, len(some), BATCH)]
                _save(path, np.concatenate(batches))
            bar.update(len(some))
    return np.concatenate([np.load(path) for path in paths])


@contextmanager
def _flushed_denormals() -> Iterator[None]:
    # They slow convolutions down. The switch also holds for NumPy's and Python's own numbers.
    was_on = np.float64(5e-324) * np.float64(1) == 0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(bool(was_on))


def _save(path: Path, values: NDArray[np.float32]) -> None:
    # Only a complete file gets the name that is looked for.
    partial = path.with_name(f".{os.getpid()}-{path.name}")
    np.save(partial, values)
    os.replace(partial, path)


def _digest(items: Any) -> str:
    digest = hashlib.sha256()
    if isinstance(items, np.ndarray):
        digest.update(repr((items.dtype.str, items.shape)).encode())
        digest.update(np.ascontiguousarray(items).tobytes())
    else:
        for text in items:
            digest.update(len(text.encode()).to_bytes(8) + text.encode())
    return digest.hexdigest()
