"""Train, unlearn and retrain: the runs of the study, each saved as soon as it is done.

    python -m experiments.cifar10.compute --config hour

can be stopped at any time and resumes with the missing runs.
"""

import argparse
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from experiments.cifar10.config import CONFIGS, Config
from experiments.cifar10.network import gradient_norms, logits, take_steps, without
from pilu.auditing import load_run, run_all
from pilu.datasets import load_cifar10

RUNS = Path(__file__).parent.parent / "runs" / "cifar10"
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


class Data(NamedTuple):
    images: torch.Tensor
    labels: torch.Tensor
    pixels: np.ndarray
    probe: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor


def folder_of(config: Config, root: Path) -> Path:
    """A folder for each config: different settings never share runs."""
    text = json.dumps(config.of_a_run(), sort_keys=True)
    return root / f"{config.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


@cache
def load(config: Config) -> Data:
    """n training images out of 5000 + 1000 by a fixed permutation; the next are for testing."""
    data = load_cifar10()
    rng = np.random.default_rng(config.split_seed)
    train = rng.permutation(len(data.train_images))[: config.n_from_train]
    test = rng.permutation(len(data.test_images))[: config.n_from_test]
    pixels = np.concatenate([data.train_images[train], data.test_images[test]])
    labels = np.concatenate([data.train_labels[train], data.test_labels[test]])
    order = rng.permutation(len(pixels))
    pixels, labels = pixels[order], labels[order]
    images = torch.from_numpy(((pixels / 255 - MEAN) / DEVIATION).astype(np.float32))
    images = images.permute(0, 3, 1, 2)
    n, m = config.n_train, config.n_train + config.n_probe
    targets = torch.from_numpy(labels)
    return Data(
        images[:n],
        targets[:n],
        pixels[:n],
        images[n:m],
        images[m : m + 1000],
        targets[m : m + 1000],
    )


def seed_of(*parts: object) -> int:
    """A separate seed for each source of randomness."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6])


def learned(config: Config, left_out: int | None, run: int) -> torch.nn.Module:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    data, name = load(config), (left_out, run)
    rows = [data.images, data.labels]
    if left_out is not None:
        rows = without(rows, left_out)
    network = config.architecture.build(config.start_seed)
    take_steps(network, *rows, config.learning, seed_of(*name, "learning"))
    return network


def unlearned(network, config: Config, row: int, name: tuple) -> np.ndarray:
    data = load(config)
    copy = config.architecture.build(0)
    copy.load_state_dict(network.state_dict())
    rows = without([data.images, data.labels], row)
    take_steps(copy, *rows, config.unlearning, seed_of(*name, row, "unlearning"))
    return logits(copy, data.probe)


def scout(config: Config) -> dict[str, np.ndarray]:
    """A first model. Its gradient norms select the rows; no audit uses it."""
    data, network = load(config), learned(config, None, -1)
    norms = gradient_norms(network, data.images, data.labels)
    with torch.no_grad():
        guess = network(data.test_images).argmax(1)
    order = np.argsort(norms)
    places = np.round(np.array(config.quantiles) * (len(order) - 1)).astype(int)
    rows = order[places]
    return {
        "rows": rows,
        "norms": norms[rows],
        "pixels": data.pixels[rows],
        "labels": data.labels.numpy()[rows],
        "accuracy": np.array(float((guess == data.test_labels).double().mean())),
    }


def forget(config: Config, rows: tuple[int, ...], run: int) -> dict[str, np.ndarray]:
    """One model on all rows. Each row is unlearned from a copy of it."""
    network = learned(config, None, run)
    name = ("all", run)
    return {str(row): unlearned(network, config, row, name) for row in rows}


def retrain(config: Config, row: int, run: int) -> dict[str, np.ndarray]:
    """One model that never saw the row, with the same noisy steps."""
    network = learned(config, row, run)
    return {str(row): unlearned(network, config, row, (row, run))}


def job(kind: str, *given) -> dict[str, np.ndarray]:
    return {"scout": scout, "forget": forget, "retrain": retrain}[kind](*given)


def jobs_of(config: Config, rows: Sequence[int]) -> dict[str, tuple]:
    """All runs, alternating between the kinds: a study that is cut short stays balanced."""
    jobs: dict[str, tuple] = {}
    for run in range(config.n_runs):
        jobs[f"forget-{run}"] = ("forget", config, tuple(rows), run)
        for row in rows:
            jobs[f"retrain-{row}-{run}"] = ("retrain", config, row, run)
    return jobs


def compute(config: Config, root: Path) -> None:
    folder = folder_of(config, root)
    load_cifar10()  # fetched here, once, before the workers start
    run_all(job, {"scout": ("scout", config)}, folder, n_workers=1)
    jobs = jobs_of(config, [int(row) for row in load_run(folder, "scout")["rows"]])
    run_all(job, jobs, folder)
    print(f"all {len(jobs)} runs are in {folder}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", choices=CONFIGS, default="quick")
    parser.add_argument("--out", type=Path, default=RUNS)
    options = parser.parse_args()
    compute(CONFIGS[options.config], options.out)


if __name__ == "__main__":
    main()
