"""The study from end to end on made-up pictures: runs, audits, tables and figures."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from experiments.cifar10 import audits, compute, render
from experiments.cifar10.config import CONFIGS, PAPER
from experiments.cifar10.network import Architecture, Steps
from experiments.store import Store

from pilu.auditing.runs import load_run, save_run
from pilu.datasets.catalogue import LabelledImages

TINY = replace(
    PAPER,
    name="tiny",
    n_train=24,
    n_from_train=60,
    n_from_test=40,
    n_probe=5,
    architecture=Architecture(widths=(2, 2, 2), hidden=8),
    learning=Steps(3, 0.05, 16, 1e-4, noise=0.0),
    unlearning=Steps(2, 0.05, 16, 1e-4, noise=0.02),
    n_runs=13,
    quantiles=(0.0, 1.0),
    mlp_width=2,
)


@pytest.fixture(scope="module", autouse=True)
def denormal_numbers():
    """A run owns its process and does without them; here other tests follow in it."""
    yield
    torch.set_flush_denormal(False)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (200, 32, 32, 3), np.uint8), rng.integers(0, 10, 200)
    made_up = LabelledImages(images[:120], labels[:120], images[120:], labels[120:])
    patch = pytest.MonkeyPatch()
    patch.setattr(compute, "load_cifar10", lambda: made_up)
    root = tmp_path_factory.mktemp("study")
    folder = compute.folder_of(TINY, root)
    folder.mkdir()
    save_run(compute.job, ("scout", TINY), folder / "scout.npz")
    rows = load_run(folder, "scout")["rows"].tolist()
    for name, given in compute.jobs_of(TINY, rows).items():
        save_run(compute.job, given, folder / f"{name}.npz")
    yield root, folder, rows
    patch.undo()


def test_what_the_paper_says_is_what_is_run():
    assert (PAPER.n_train, PAPER.n_from_train, PAPER.n_from_test) == (500, 5000, 1000)
    assert Steps(500, 0.01, 256, 1e-4, noise=0.0) == PAPER.learning
    assert Steps(20, 0.01, 256, 1e-4, noise=0.02) == PAPER.unlearning
    assert PAPER.n_runs == 100
    assert PAPER.architecture.hidden == 256
    assert len(PAPER.quantiles) == 7
    assert PAPER.delta == 1 / 500
    assert set(CONFIGS) == {"paper", "hour", "quick"}


def test_runs_are_told_apart_by_their_settings(tmp_path):
    other = replace(TINY, learning=replace(TINY.learning, n_steps=4))
    assert compute.folder_of(TINY, tmp_path) != compute.folder_of(other, tmp_path)
    more = replace(TINY, n_runs=99)
    assert compute.folder_of(TINY, tmp_path) == compute.folder_of(more, tmp_path)


def test_rows_are_chosen_by_gradient_norm(study):
    _, folder, rows = study
    norms = load_run(folder, "scout")["norms"]
    assert norms[0] < norms[1]
    assert len(set(rows)) == 2


def test_everything_random_has_a_seed_of_its_own(study, monkeypatch):
    """No two runs share a seed, forgetting and retraining least of all."""
    seeds = []
    monkeypatch.setattr(compute, "take_steps", lambda *given: seeds.append(given[-1]))
    _, _, rows = study
    for _, given in compute.jobs_of(replace(TINY, n_runs=3), rows).items():
        compute.job(*given)
    assert len(seeds) == 3 * (1 + 2) + 3 * 2 * 2
    assert len({seed % 2**32 for seed in seeds}) == len(seeds)


def test_runs_differ_and_can_be_repeated(study):
    _, folder, rows = study
    first, second = (load_run(folder, f"forget-{run}")[str(rows[0])] for run in (0, 1))
    assert first.shape == (50,)
    assert (first != second).any()
    again = compute.forget(TINY, tuple(rows), 0)[str(rows[0])]
    np.testing.assert_allclose(again, first, atol=1e-5)
    retrained = load_run(folder, f"retrain-{rows[0]}-0")[str(rows[0])]
    assert (retrained != first).any()


def test_tables_and_pictures(study, tmp_path, capsys):
    root, _, rows = study
    store = Store(tmp_path / "results")
    audits.audit_all(TINY, root, store)
    table = store.read("cifar10_audits")
    assert list(table["row"]) == [rows[0], rows[0], rows[1], rows[1]]
    assert (table["runs"] == 13).all()
    assert (table["mu_lower"] <= table["mu_provable"]).all()
    assert store.provenance("cifar10_audits")["config"]["learning"]["n_steps"] == 3
    assert store.has("cifar10_audits", TINY.describe())
    assert not store.has("cifar10_audits", replace(TINY, n_runs=99).describe())
    render.render(store, tmp_path / "figures")
    names = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert names == {"cifar10_trade_offs", "cifar10_rows"}
    assert "epsilon-hat by distinguisher" in capsys.readouterr().out


def test_a_study_that_is_not_done_says_how_far_it_is(study):
    _, folder, rows = study
    assert audits.complete_runs(folder, replace(TINY, n_runs=99), rows) == 13
