"""Learn, unlearn and retrain: blocks of runs, each saved as soon as it is done.

    python -m experiments.cifar10.compute --size full --study features

can be stopped at any time and resumes with the missing blocks.
"""

import argparse
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.cifar10.config import STUDIES, Study
from experiments.cifar10.data import Data, Labelled, data_of
from experiments.cifar10.networks import Weights, side_by_side
from experiments.cifar10.steps import gradient_norms, outputs, take_steps
from pilu.auditing import load_run, run_all

RUNS = Path(__file__).parent.parent / "runs" / "cifar10"
Arrays = dict[str, np.ndarray]


def folder_of(study: Study, root: Path = RUNS) -> Path:
    """A folder for each study's settings: different ones never share runs."""
    text = json.dumps(study.of_a_run(), sort_keys=True)
    return root / f"{study.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def generator_of(*parts: Any) -> torch.Generator:
    """A separate source of randomness for each part of a block."""
    seed = int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6])
    return torch.Generator().manual_seed(seed)


def learned(study: Study, left_out: int | None, block: int, n_runs: int) -> list[torch.Tensor]:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    start = side_by_side(study.network.start(study.start_seed), n_runs)
    generator = generator_of("learning", left_out, block)
    rows = data_of(study).rows
    return take_steps(study.network, start, rows, study.learning, generator, left_out)


def accuracies(study: Study, weights: Weights, test: Labelled) -> np.ndarray:
    """The share of test images that every run gets right."""
    guesses = outputs(study.network, weights, test.images).argmax(2)
    return (guesses == test.labels).double().mean(1).numpy()


def unlearned(study: Study, weights: Weights, row: int, *name: Any) -> Arrays:
    """After K noisy steps without the row: logits on its probes, and the accuracy."""
    data = data_of(study)
    generator = generator_of("unlearning", row, *name)
    after = take_steps(study.network, weights, data.rows, study.unlearning, generator, row)
    return {
        f"logits-{row}": outputs(study.network, after, probes(data, row)).numpy(),
        f"accuracy-{row}": accuracies(study, after, data.test),
    }


def probes(data: Data, row: int) -> torch.Tensor:
    """The row's image, its mirror, and images that no run has learned."""
    return torch.cat([data.rows.views[row, :2], data.probe])


def scout(study: Study) -> Arrays:
    """A first network. Its gradient norms select the rows; no audit uses it."""
    data = data_of(study)
    weights = learned(study, None, -1, 1)
    one = [weight[0] for weight in weights]
    norms = gradient_norms(study.network, one, data.rows).numpy()
    order = np.argsort(norms)
    rows = order[np.round(np.array(study.quantiles) * (len(order) - 1)).astype(int)]
    return {
        "rows": rows,
        "norms": norms[rows],
        "pixels": data.pixels[rows],
        "labels": data.rows.labels.numpy()[rows],
    }


def forget(study: Study, rows: tuple[int, ...], block: int) -> Arrays:
    """Networks that learned all rows. Each row is unlearned from copies of them."""
    weights = learned(study, None, block, study.block)
    found = {"before": accuracies(study, weights, data_of(study).test)}
    for row in rows:
        found |= unlearned(study, weights, row, "all", block)
    return found


def retrain(study: Study, row: int, block: int) -> Arrays:
    """Networks that never saw the row, with the same noisy steps."""
    weights = learned(study, row, block, study.block)
    before = {"before": accuracies(study, weights, data_of(study).test)}
    return before | unlearned(study, weights, row, "without", block)


def job(kind: str, *given: Any) -> Arrays:
    return {"scout": scout, "forget": forget, "retrain": retrain}[kind](*given)


def jobs_of(study: Study, rows: Sequence[int]) -> dict[str, tuple[Any, ...]]:
    """All blocks, alternating between the kinds: a study that is cut short stays balanced."""
    jobs: dict[str, tuple[Any, ...]] = {}
    for block in range(study.n_runs // study.block):
        jobs[f"forget-{block}"] = ("forget", study, tuple(rows), block)
        for row in rows:
            jobs[f"retrain-{row}-{block}"] = ("retrain", study, row, block)
    return jobs


def compute(study: Study, root: Path = RUNS, n_workers: int | None = None) -> None:
    folder = folder_of(study, root)
    data_of(study)  # data and features are fetched here, once, before the workers start
    run_all(job, {"scout": ("scout", study)}, folder, n_workers=1)
    jobs = jobs_of(study, [int(row) for row in load_run(folder, "scout")["rows"]])
    run_all(job, jobs, folder, n_workers=n_workers)
    print(f"all {len(jobs)} blocks are in {folder}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=tuple(STUDIES), default="quick")
    parser.add_argument("--study", choices=("features", "images"), required=True)
    parser.add_argument("--workers", type=int, help="processes; one for each core by default")
    options = parser.parse_args()
    compute(STUDIES[options.size][options.study], n_workers=options.workers)


if __name__ == "__main__":
    main()
