"""Both studies from end to end on made-up pictures: runs, scores, audits, pictures and the page."""

import json
import shutil
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from experiments.cifar10 import __main__ as main
from experiments.cifar10 import audits, choices, compute, config, data, heterogeneity, page, render
from experiments.cifar10 import scores as scoring
from experiments.cifar10.networks import Convolutional, Perceptron
from experiments.cifar10.steps import Steps, outputs
from experiments.features import Features
from experiments.store import STORES, Store
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from torch import nn

from experiments import claims
from pilu.auditing import load_run, runs
from pilu.datasets.catalogue import LabelledImages

SPLIT = config.Split(n_from_train=60, n_from_test=40, n_train=24, n_probe=5, n_test=30, n_choose=20)
FEATURES = replace(
    config.FEATURES,
    network=Perceptron((6, 5, 10)),
    learning=Steps(6, 0.05, 16, 1e-4),
    unlearning=Steps(2, 0.05, 16, 1e-4, noise=0.02),
    n_runs=28,
    block=4,
    split=SPLIT,
    quantiles=(0.0, 0.5, 1.0),
    step_sizes=(0.01, 0.1),
    mlp_width=2,
)
IMAGES = replace(FEATURES, name="images", network=Convolutional(8, (2, 3), 5))
TOYS = {"features": FEATURES, "images": IMAGES}


class InThisProcess:
    """A worker that sees what is made up here."""

    def carry_out(self, run, arguments, path):
        runs.save_run(run, arguments, path)

    def close(self):
        pass


def made_up_features(images, network, *, size):
    """Mean colours of the corners: a mirror has others."""
    corners = [images[:, i : i + 16, j : j + 16].mean((1, 2)) for i in (0, 16) for j in (0, 16)]
    return Features(np.hstack(corners).astype(np.float32), {"network": network, "size": size})


@contextmanager
def made_up():
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (200, 32, 32, 3), np.uint8), rng.integers(0, 10, 200)
    source = LabelledImages(images[:120], labels[:120], images[120:], labels[120:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "load_cifar10", lambda: source)
        patch.setattr(data, "image_features", made_up_features)
        patch.setattr(runs, "_Worker", InThisProcess)
        data.load.cache_clear()
        yield source
        data.load.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def denormal_numbers():
    """A run owns its process and does without them; here other tests follow in it."""
    yield
    torch.set_flush_denormal(False)


@contextmanager
def toy_command(root, store):
    """`compute_study("toy")`, with its blocks in a folder of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(config.STUDIES, "toy", TOYS)
        patch.setitem(STORES, "toy", store)
        patch.setattr(main, "compute", partial(compute.compute, root=root, n_workers=1))
        patch.setattr(main, "score", partial(scoring.score, root=root))
        patch.setattr(audits, "N_DRAWS", 60)
        patch.setattr(heterogeneity, "N_DRAWS", 60)
        patch.setattr(heterogeneity, "N_PERMUTATIONS", 99)
        yield patch


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    root = tmp_path_factory.mktemp("cifar10")
    store = Store(root / "results")
    with made_up() as source:
        with toy_command(root / "runs", store):
            main.compute_study("toy")
        yield SimpleNamespace(root=root / "runs", store=store, source=source)


def rows_of(done, name):
    folder = compute.folder_of(TOYS[name], done.root)
    return folder, [int(row) for row in load_run(folder, "scout")["rows"]]


def test_what_the_paper_says_is_what_is_run():
    for study in config.STUDIES["full"].values():
        split = study.split
        assert (split.n_from_train, split.n_from_test, split.n_train) == (5000, 1500, 500)
        assert (study.learning.n_steps, study.unlearning.n_steps) == (500, 20)
        assert (study.learning.noise, study.unlearning.noise) == (0, 0.02)
        for steps in (study.learning, study.unlearning):
            assert (steps.batch_size, steps.l2) == (256, 1e-4)
        assert study.learning.step_size == study.unlearning.step_size
        assert study.delta == 1 / 500
        assert study.n_runs % study.block == 0
        assert len(study.quantiles) == 7
    assert [study.n_runs for study in config.STUDIES["full"].values()] == [1000, 100]


@pytest.mark.parametrize("name", TOYS)
def test_the_step_size_of_a_study_is_the_one_that_was_chosen(name):
    study = config.STUDIES["full"][name]
    table = STORES["full"].read(f"cifar10_{name}_step_sizes")
    assert tuple(table["step_size"]) == study.step_sizes
    assert choices.chosen(table, study.aim) == study.learning.step_size


def test_the_smallest_step_size_that_reaches_the_aim():
    table = pd.DataFrame({"step_size": [0.1, 0.01, 0.03], "aside": [0.9, 0.4, 0.5]})
    assert choices.chosen(table, 0.5) == 0.03
    assert choices.chosen(table, 0.51) == 0.1
    assert np.isnan(choices.chosen(table, 0.95))


def test_step_sizes_are_judged_on_images_aside(done, monkeypatch):
    """Networks that always say 3 are right on the share of threes."""
    tried = []

    def always_three(study, left_out, block, n_runs):
        tried.append((study.learning.step_size, left_out, block))
        weights = [torch.zeros(n_runs, *w.shape) for w in study.network.start(0)]
        weights[-1][..., 3] = 1.0
        return weights

    monkeypatch.setattr(choices, "learned", always_three)
    found = choices.try_step_sizes(FEATURES)
    assert tried == [(0.01, None, -2), (0.1, None, -2)]  # blocks of a study count from 0
    labels = np.concatenate([done.source.train_labels[:60], done.source.test_labels[:40]])
    order = np.random.default_rng(0).permutation(100)
    aside, learned = order[24 + 5 + 30 :][:20], order[:24]
    np.testing.assert_allclose(found["aside"], np.mean(labels[aside] == 3))
    np.testing.assert_allclose(found["learned"], np.mean(labels[learned] == 3))


def test_images_are_shared_out_once(done):
    """Learned, probed, tested and chosen by: no image is in two of them."""
    images = np.concatenate([done.source.train_images[:60], done.source.test_images[:40]])
    found = data.data_of(IMAGES)
    parts = [found.rows.views[:, 0], found.probe, found.test.images, found.choose.images]
    assert [len(part) for part in parts] == [24, 5, 30, 20]
    assert len(torch.cat(parts).flatten(1).unique(dim=0)) == 24 + 5 + 30 + 20
    # The picture, its mirror, then every crop of both, each of them once.
    views = found.rows.views
    assert views.shape == (24, 18, 8, 8, 3)
    pooled = found.pixels[0].reshape(8, 4, 8, 4, 3).mean((1, 3)) / 255
    expected = (pooled - data.MEAN) / data.DEVIATION
    np.testing.assert_allclose(views[0, 0], expected, atol=1e-5)
    np.testing.assert_allclose(views[0, 1], expected[:, ::-1], atol=1e-5)
    assert len(views[0].flatten(1).unique(dim=0)) == 18
    assert any((found.pixels[0] == image).all() for image in images)


def test_components_are_those_of_images_aside(done):
    """Another learned picture moves no view but its own; features have a picture and a mirror."""
    images = np.concatenate([done.source.train_images[:60], done.source.test_images[:40]])
    order = np.random.default_rng(0).permutation(100)
    aside = order[24 + 5 + 30 :]
    before = data.feature_views(images, aside, 6, 96)
    assert torch.equal(before[order[:24]], data.data_of(FEATURES).rows.views)
    assert (before[:, 0] != before[:, 1]).any(1).all()
    assert before[aside, 0].square().mean() == pytest.approx(1, rel=1e-5)
    changed = images.copy()
    changed[order[0]] = 255
    after = data.feature_views(changed, aside, 6, 96)
    same = (after == before).flatten(1).all(1)
    assert same.sum() == 99
    assert not same[order[0]]


def test_settings_have_folders_of_their_own(tmp_path):
    folder = compute.folder_of(FEATURES, tmp_path)
    for other in (
        replace(FEATURES, learning=replace(FEATURES.learning, n_steps=7)),
        replace(FEATURES, split=replace(SPLIT, seed=1)),
        replace(FEATURES, block=2),
    ):
        assert compute.folder_of(other, tmp_path) != folder
    for same in (replace(FEATURES, n_runs=99), replace(FEATURES, mlp_width=99)):
        assert compute.folder_of(same, tmp_path) == folder


@pytest.mark.parametrize("name", TOYS)
def test_rows_are_quantiles_of_the_gradient_norm(done, name):
    study = TOYS[name]
    folder, rows = rows_of(done, name)
    weights = compute.learned(study, None, -1, 1)
    learned, norms = data.data_of(study).rows, []
    for row in range(24):
        copies = [weight.clone().requires_grad_() for weight in weights]
        logits = study.network.logits(copies, learned.views[None, row, :1])[0]
        nn.functional.cross_entropy(logits, learned.labels[row, None]).backward()
        norms.append(float(torch.cat([w.grad.flatten() for w in copies]).norm()))
    order = np.argsort(norms)
    assert rows == [order[0], order[12], order[23]]  # 11.5 is rounded to the even one
    np.testing.assert_allclose(
        load_run(folder, "scout")["norms"], np.sort(norms)[[0, 12, 23]], 1e-4
    )


def test_rows_are_unlearned_by_copies_of_one_network(done):
    """Without unlearning steps all rows see the same networks; retrained ones are of that row."""
    study = replace(FEATURES, unlearning=replace(FEATURES.unlearning, n_steps=0))
    found = compute.forget(study, (3, 8), 0)
    first, second = found["logits-3"], found["logits-8"]
    np.testing.assert_array_equal(first[:, 2:], second[:, 2:])  # the probes that rows share
    assert (first[:, :2] != second[:, :2]).any(2).all()
    np.testing.assert_array_equal(found["accuracy-3"], found["before"])
    weights = compute.learned(study, 3, 0, 4)
    retrained = compute.retrain(study, 3, 0)
    seen = data.data_of(study)
    np.testing.assert_array_equal(
        retrained["logits-3"][:, 2:], outputs(study.network, weights, seen.probe)
    )
    own = outputs(study.network, weights, seen.rows.views[3, :2])
    np.testing.assert_array_equal(retrained["logits-3"][:, :2], own)


def test_every_part_of_a_run_leaves_the_right_row_out(done, monkeypatch):
    """In the order of the steps: learning, then unlearning row by row; and no two share a seed."""
    taken = []

    def watched(network, weights, rows, steps, generator, left_out=None):
        seed = generator.initial_seed() % 2**32  # PyTorch uses no more of it
        taken.append((left_out, steps == FEATURES.learning, seed))
        return weights

    monkeypatch.setattr(compute, "take_steps", watched)
    compute.forget(FEATURES, (3, 8), 0)
    compute.retrain(FEATURES, 8, 0)
    expected = [(None, True), (3, False), (8, False), (8, True), (8, False)]
    assert [part[:2] for part in taken] == expected
    taken.clear()
    many = replace(FEATURES, n_runs=20 * FEATURES.block)
    for given in compute.jobs_of(many, range(7)).values():
        compute.job(*given)
    assert len(taken) == 20 * (1 + 7 + 7 * 2)
    assert len({seed for *_, seed in taken}) == len(taken)


@pytest.mark.parametrize("name", TOYS)
def test_blocks_differ_and_can_be_repeated(done, name):
    folder, rows = rows_of(done, name)
    first, second = (load_run(folder, f"forget-{block}") for block in (0, 1))
    again = compute.forget(TOYS[name], tuple(rows), 0)
    assert set(again) == set(first)
    for key, value in first.items():
        np.testing.assert_allclose(again[key], value, atol=1e-5)
    logits = np.concatenate([block[f"logits-{rows[0]}"] for block in (first, second)])
    assert logits.shape == (8, 2 + 5, 10)
    assert len(np.unique(logits.reshape(8, -1), axis=0)) == 8


def test_only_missing_blocks_are_computed(done, tmp_path, monkeypatch):
    folder, rows = rows_of(done, "features")
    copy = compute.folder_of(FEATURES, tmp_path)
    shutil.copytree(folder, copy)
    lost = ("forget-2", f"retrain-{rows[1]}-5")
    for name in lost:
        (copy / f"{name}.npz").unlink()
    started = []
    job = compute.job
    monkeypatch.setattr(compute, "job", lambda *given: started.append(given[0]) or job(*given))
    compute.compute(FEATURES, tmp_path, n_workers=1)
    assert started == ["forget", "retrain"]
    for name in lost:
        for key, value in load_run(folder, name).items():
            np.testing.assert_allclose(load_run(copy, name)[key], value, atol=1e-5)


@pytest.mark.parametrize(("missing", "left"), [("retrain-{}-6", 24), ("forget-3", 12)])
def test_a_study_before_its_end_has_complete_blocks_only(done, tmp_path, missing, left):
    folder, rows = rows_of(done, "features")
    copy = compute.folder_of(FEATURES, tmp_path)
    shutil.copytree(folder, copy)
    (copy / f"{missing.format(rows[2])}.npz").unlink()
    store = Store(tmp_path / "results")
    scoring.score(FEATURES, store, tmp_path)
    some, full = (each.read("cifar10_features_scores") for each in (store, done.store))
    assert list(some["run"]) == 3 * list(range(left))
    both = some.merge(full, on=["row", "run"])
    for kind in ("unlearned", "retrained"):
        assert (both[f"{kind}_loss_x"] == both[f"{kind}_loss_y"]).all()
    assert store.provenance("cifar10_features_scores")["runs_of_each_kind"] == left
    assert (store.read("cifar10_features_accuracy")["runs"] == left).all()


def test_a_study_before_its_end_is_not_done(done, tmp_path):
    table, copy = "cifar10_features_audits", Store(tmp_path)
    assert main.is_complete(done.store, table, FEATURES)
    assert not main.is_complete(copy, table, FEATURES)
    assert not main.is_complete(done.store, table, replace(FEATURES, n_runs=99))
    given = done.store.provenance(table)
    copy.write(table, done.store.read(table), given | {"runs_of_each_kind": 24})
    assert not main.is_complete(copy, table, FEATURES)


def test_a_study_that_is_done_is_not_computed_again(done, capsys):
    with toy_command(done.root, done.store) as patch:
        for name in ("compute", "score", "audit_study", "try_step_sizes"):
            patch.setattr(main, name, None)
        main.compute_study("toy")
    assert capsys.readouterr().out.count("is there already") == 2


@pytest.mark.parametrize("name", TOYS)
def test_losses_and_accuracies_are_those_of_the_runs(done, name):
    """Cross-entropy of PyTorch on stored logits."""
    folder, rows = rows_of(done, name)
    table = done.store.read(f"cifar10_{name}_scores")
    chosen = done.store.read(f"cifar10_{name}_rows")
    accuracy = done.store.read(f"cifar10_{name}_accuracy").set_index(["row", "kind"])
    learned = data.data_of(TOYS[name])
    assert list(chosen["row"]) == rows
    for row, label in zip(rows, chosen["label"], strict=True):
        assert label == learned.rows.labels[row]
        some = table[table["row"] == row]
        for kind, file in (("unlearned", "forget-{}"), ("retrained", f"retrain-{row}-{{}}")):
            blocks = [load_run(folder, file.format(block)) for block in range(7)]
            logits = torch.from_numpy(np.concatenate([block[f"logits-{row}"] for block in blocks]))
            for place, score in enumerate(("loss", "mirror")):
                labels = torch.full((28,), label)
                losses = nn.functional.cross_entropy(logits[:, place], labels, reduction="none")
                np.testing.assert_allclose(some[f"{kind}_{score}"], losses, rtol=6e-4)
            shares = np.concatenate([block[f"accuracy-{row}"] for block in blocks])
            assert accuracy.loc[(row, kind), "after"] == pytest.approx(shares.mean(), rel=1e-4)
            assert accuracy.loc[(row, kind), "after_sd"] == pytest.approx(
                np.std(shares, ddof=1), 1e-4
            )
    pixels = done.store.read(f"cifar10_{name}_pixels")
    np.testing.assert_array_equal(pixels.drop(columns="row"), learned.pixels[rows].reshape(3, -1))


N = 41


def scored(monkeypatch, P, Q):
    """The scores of one row whose runs (n x images x classes) are given."""
    given = {"unlearned": P, "retrained": Q}
    monkeypatch.setattr(scoring, "read", lambda folder, kind, *rest: given[kind].copy())
    return scoring.score_row(FEATURES, None, 0, 1, 0)


def made_up_logits(shift, seed=0):
    rng = np.random.default_rng(seed)
    P, Q = rng.normal(size=(2, N, 3, 2))
    P[:, 0, 0] += shift
    return P, Q


def test_halves_that_are_held_out_train_nothing(monkeypatch):
    P, Q = made_up_logits(1.0)
    before = scored(monkeypatch, P, Q)
    half = N // 2
    held = [f"{kind}_{way}_held" for kind in scoring.KINDS for way in ("linear", "mlp")]
    assert before[held].iloc[:half].isna().all().all()
    assert before[held].iloc[half:].notna().all().all()
    changed = [P.copy(), Q.copy()]
    for runs_of_a_kind in changed:
        runs_of_a_kind[half] += 50.0
    after = scored(monkeypatch, *changed)
    pd.testing.assert_frame_equal(after[held].drop(half), before[held].drop(half))
    crossed = [name.removesuffix("_held") for name in held]
    assert (after[crossed].drop(half) != before[crossed].drop(half)).any().all()
    changed = [P.copy(), Q.copy()]
    changed[1][half - 1] += 50.0  # this one does train
    after = scored(monkeypatch, *changed)
    assert (after[held].iloc[half:] != before[held].iloc[half:]).any().all()


def test_the_linear_distinguisher_is_scikit_learns(monkeypatch):
    P, Q = made_up_logits(1.0)
    found, half = scored(monkeypatch, P, Q), N // 2
    train = np.concatenate([P[:half], Q[:half]]).reshape(2 * half, -1)
    scaler = StandardScaler().fit(train)
    model = LogisticRegression().fit(scaler.transform(train), np.repeat([1, 0], half))
    for kind, given in (("unlearned", P), ("retrained", Q)):
        expected = model.decision_function(scaler.transform(given[half:].reshape(N - half, -1)))
        np.testing.assert_allclose(found[f"{kind}_linear_held"][half:], expected, 0.01, atol=1e-4)


def test_the_control_knows_retrained_runs_only(monkeypatch):
    P, Q = made_up_logits(1.0)
    control = ["control_linear", "control_mlp"]
    before = scored(monkeypatch, P, Q)[control]
    assert before.notna().all().all()
    pd.testing.assert_frame_equal(scored(monkeypatch, P + 9.0, Q)[control], before)
    Q[::2, 2, 1] += 6.0  # now even and odd ones do differ
    found = scored(monkeypatch, P, Q)
    even = np.arange(N) % 2 == 0
    for name in control:
        assert abs(roc_auc_score(even, before[name]) - 0.5) < 0.3
        assert roc_auc_score(even, found[name]) > 0.95


def test_audits_of_every_row_score_and_comparison(done):
    for name in TOYS:
        table = done.store.read(f"cifar10_{name}_audits")
        assert len(table) == 3 * 4 * 2
        assert not table.duplicated(["row", "score", "comparison"]).any()
        runs_of = table.set_index(["score", "comparison"])["runs"]
        assert (runs_of.xs("unlearned", level=1) == 28).all()
        assert (runs_of.xs("control", level=1) == 14).all()
        counted = table.groupby(["score", "comparison"])["counted"].max()
        assert counted["loss", "unlearned"] == 14
        assert counted["loss", "control"] == counted["mlp", "unlearned"] == 7
        assert counted.isna().sum() == 2
        assert (table["epsilon_lower"].dropna() <= table["epsilon_provable"].dropna()).all()
        tests = done.store.read(f"cifar10_{name}_tests")
        assert tests.set_index(["score", "comparison"])["runs"].to_dict() == {
            ("loss", "unlearned"): 28,
            ("mirror", "unlearned"): 28,
            ("linear", "unlearned"): 14,
            ("mlp", "unlearned"): 14,
            ("loss", "control"): 14,
            ("mirror", "control"): 14,
        }
        assert done.store.provenance(f"cifar10_{name}_audits")["delta"] == 1 / 24


def test_pictures(done, tmp_path):
    render.render(done.store, tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {f"{name}.{kind}" for name in render.PICTURES for kind in ("pdf", "png")}


def test_the_page(done):
    text = page.section(done.store)
    assert "nan" not in text
    assert "{" not in text
    assert max(len(line) for line in text.splitlines() if not line.startswith(("|", "!"))) <= 100
    for picture in page.PICTURES:
        assert f"(figures/{picture}.webp)" in text
    for told in ("24, 1/24", "500, 1/500", "on 30 test images", "and 5 images that no run"):
        assert told in " ".join(text.split())
    tables = [line for line in text.splitlines() if line.startswith("|")]
    headers = [k for k, line in enumerate(tables) if line.startswith("| ---")]
    for start, end in pairwise([*headers, len(tables) + 1]):
        block = tables[start - 1 : end - 1]
        assert len({line.count("|") for line in block}) == 1
        assert len(block) > 2


def test_every_claim_has_a_verdict(done):
    for claim in claims.CLAIMS["cifar10"]:
        found = claim(done.store, "cifar10")
        assert found.theorem is not None
        assert found.reason
        assert "nan" not in found.measured


def test_provenance_is_the_studys(done):
    for name, study in TOYS.items():
        for table in ("step_sizes", "rows", "pixels", "accuracy", "scores", "tests", "audits"):
            given = done.store.provenance(f"cifar10_{name}_{table}")["config"]
            assert given == json.loads(json.dumps(study.describe()))
