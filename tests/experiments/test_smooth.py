"""Smooth losses at toy size: maps, noises, runs, tables, pictures and the page."""

import json
import math
import re
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from experiments.features import Features
from experiments.smooth import __main__ as smooth
from experiments.smooth import command, data, engine, page
from experiments.smooth.compute import accuracy, flips, horizons, noise
from experiments.smooth.config import EPSILONS, STUDIES, PictureData, TextData
from experiments.smooth.engine import Engine, margins
from experiments.smooth.figures import ONLY, PICTURES, TABLES, of_study, script
from experiments.store import FIGURES, STORES, Store
from PIL import Image
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from pilu.datasets.catalogue import LabelledImages, RatedTexts

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
STORED = sorted(path.stem for path in RESULTS.glob("smooth-*.csv"))
SMALL = {
    "size": "toy",
    "n_steps": 15,
    "n_unlearn_steps": 4,
    "alpha": 0.1,
    "noise": 0.05,
    "n_auxiliary_runs": 3,
    "n_repeats": 3,
    "epsilons": (0.5, 1.0, 4.0),
    "n_shown": 2,
}
PICTURE = {"image_size": 32, "n_from_train": 60, "n_from_test": 20, "n_train": 50, "n_aside": 12}
OF_SOURCE = {
    "mnist38": {"source": "mnist", "network": "resnet50", "classes": (0, 2)},
    "mnist": {"source": "mnist", "network": "resnet50"},
    "cifar10": {"source": "cifar10", "network": "mobilenet_v2"},
}
TOYS = {
    name: replace(
        study,
        **SMALL,
        n_flips=min(study.n_flips, 2),
        share_flipped=0.1,
        data=PictureData(**OF_SOURCE[name], **PICTURE) if name in OF_SOURCE else TextData(30, 8, 9),
    )
    for name, study in STUDIES["full"].items()
}


def made_up_images(shape):
    """Labels that the pictures know: the mean grey of a picture tells its label."""
    rng = np.random.default_rng(12)
    labels = np.arange(90) % 3
    grey = (80 * labels).reshape(-1, *[1] * len(shape))
    images = (grey + rng.integers(0, 80, (90, *shape))).astype(np.uint8)
    return LabelledImages(images[:65], labels[:65], images[65:], labels[65:])


def made_up_image_features(images, network, *, size):
    rng = np.random.default_rng(13)
    grey = images.reshape(len(images), -1).mean(axis=1) / 80
    seen = np.stack([grey, np.abs(grey - 1.5)], axis=1) + rng.normal(size=(len(grey), 2)) / 3
    found = np.hstack([seen, 5 + rng.normal(size=(len(grey), 3))])
    return Features(found.astype(np.float32), {"network": network, "size": size})


def made_up_vader():
    texts = tuple(f"text, {k}: {'good' if k % 2 else 'bad'} | indeed" for k in range(90))
    ratings = np.where(np.arange(90) % 2, 1.0, -1.0) * (0.75 + np.arange(90) // 3 % 3 / 2)
    return RatedTexts(texts, ratings, ("tweets", "movies", "papers") * 30)


def made_up_text_features(texts):
    good = np.array(["good" in text for text in texts], dtype=float)
    rng = np.random.default_rng(15)
    found = np.hstack([good[:, None], np.zeros((len(texts), 3))]) + rng.normal(size=(len(texts), 4))
    return Features(found.astype(np.float32), {"network": "minilm"})


@pytest.fixture(scope="module")
def made_up():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "load_mnist", lambda: made_up_images((28, 28)))
        patch.setattr(data, "load_cifar10", lambda: made_up_images((32, 32, 3)))
        patch.setattr(data, "image_features", made_up_image_features)
        patch.setattr(data, "load_vader", made_up_vader)
        patch.setattr(data, "text_features", made_up_text_features)
        patch.setitem(STUDIES, "toy", TOYS)
        yield patch


@pytest.fixture(params=list(TOYS))
def toy(request, made_up):
    return one(request.param)


def one(name):
    return Engine(TOYS[name], data.mapped(data.read(TOYS[name])))


# Data


def test_no_row_to_learn_has_a_part_in_the_map(made_up):
    rows = data.read(TOYS["mnist"])
    before = data.mapped(rows)
    values = rows.values.copy()
    first = np.flatnonzero(rows.parts == "train")[0]
    values[first] = 1000.0
    after = data.mapped(rows._replace(values=values))
    np.testing.assert_array_equal(before.X[1:], after.X[1:])
    np.testing.assert_array_equal(before.X_test, after.X_test)
    assert (before.X[0] != after.X[0]).any()


def test_rows_have_norm_one(toy):
    for part in (toy.data.X, toy.data.X_test):
        np.testing.assert_allclose(np.sum(part**2, axis=1), 1.0)


def test_the_map_is_the_units_of_the_rows_set_aside(made_up):
    rows = data.read(TOYS["cifar10"])
    aside = rows.values[rows.parts == "aside"].astype(float)
    x = rows.values[rows.parts == "train"][3].astype(float)
    z = (x - aside.mean(axis=0)) / aside.std(axis=0)
    np.testing.assert_allclose(data.mapped(rows).X[3], z / np.sqrt(z @ z))
    plain = data.mapped(rows, in_units_of_aside=False)
    np.testing.assert_allclose(plain.X[3], x / np.sqrt(x @ x))


def test_digits_to_learn_are_those_of_the_linear_study(made_up):
    parts = data.shared_out(80, 50, 12)
    order = np.random.default_rng(0).permutation(80)
    assert set(np.flatnonzero(parts == "train")) == set(order[:50])
    assert set(np.flatnonzero(parts == "aside")) == set(order[50:62])
    assert (parts == "test").sum() == 18


def test_classes_that_are_not_asked_for_are_left_out(made_up):
    assert set(one("mnist38").data.y) == {0, 2}
    assert one("mnist38").data.names == {0: "0", 2: "2"}


def test_texts_are_clear_and_no_tweets(made_up):
    rows, vader = data.read(TOYS["vader"]), made_up_vader()
    assert len(rows.values) == 40  # of 60 that are no tweets, a third has a rating below 1
    for text, label in zip(rows.shown, rows.labels, strict=True):
        k = vader.texts.index(text)
        assert vader.kinds[k] != "tweets"
        assert abs(vader.ratings[k]) >= 1.0
        assert label == (vader.ratings[k] > 0)
    assert [int(np.sum(rows.parts == part)) for part in ("train", "aside", "test")] == [30, 8, 2]


# Engine


def literal_steps(X, y, theta, alpha, eta, sigma, n_steps, rng):
    """Langevin steps on all runs, p x (R C), with the losses written out.

    theta <- theta - eta (sum of gradients + alpha theta) + sqrt(2 eta) sigma xi   [PILU, Alg. 1]
    """
    classes = np.unique(y)
    for _ in range(n_steps):
        z = X @ theta
        if len(classes) == 2:
            likely = 1 / (1 + np.exp(-z)) - (y == classes[1])[:, None]
        else:
            hot = (y[:, None] == classes).astype(float)
            z = np.exp(z.reshape(len(X), -1, len(classes)))
            likely = (z / z.sum(axis=2, keepdims=True) - hot[:, None]).reshape(len(X), -1)
        theta = theta - eta * (X.T @ likely + alpha * theta)
        theta = theta + np.sqrt(2 * eta) * sigma * rng.standard_normal(theta.shape)
    return theta


def test_runs_are_those_of_algorithm_1(toy):
    study, (X, y, X_test, y_test, *_) = toy.study, toy.data
    classes = np.unique(y)
    two = len(classes) == 2
    C = 1 if two else len(classes)
    eta = 1 / (study.alpha + (0.25 if two else 0.5) * np.linalg.norm(X, 2) ** 2)
    assert toy.model.step_size_ == pytest.approx(eta)
    start = np.zeros((X.shape[1], study.n_repeats * C))
    rng = np.random.default_rng([study.seed, 1])
    theta = literal_steps(X, y, start, study.alpha, eta, study.noise, study.n_steps, rng)
    np.testing.assert_allclose(toy.learned, theta, atol=1e-9)
    row, noises, K = 5, (0.1, 0.7), study.n_unlearn_steps
    rng = np.random.default_rng([study.seed, 2, 0, row])
    left = np.arange(len(X)) != row
    each = np.repeat(noises, theta.shape[1])
    theta = np.tile(theta, (1, 2))
    theta = literal_steps(X[left], y[left], theta, study.alpha, eta, each, K, rng)
    scores = (X_test @ theta).reshape(len(X_test), -1, C)
    best = (scores[..., 0] > 0).astype(int) if two else scores.argmax(axis=2)
    expected = (classes[best] == y_test[:, None]).mean(axis=0).reshape(2, study.n_repeats)
    np.testing.assert_allclose(toy.run(row, noises, stream=0), expected)


def test_the_uniform_noise_is_what_the_largest_gradient_needs(toy):
    """All steps pooled, the closed form of the paper: mu = sum c^k s / sqrt(variance)."""
    study, n = toy.study, len(toy.data.X)
    eta, T, K = toy.model.step_size_, study.n_steps, study.n_unlearn_steps
    c, G = 1 - eta * study.alpha, 1.0 if len(np.unique(toy.data.y)) == 2 else math.sqrt(2)
    shift = eta * G * sum(c ** (T + K - 1 - k) for k in range(T))

    def delta(mu):  # at epsilon = 1
        return norm.cdf(-1 / mu + mu / 2) - math.e * norm.cdf(-1 / mu - mu / 2)

    mu = brentq(lambda mu: delta(mu) - 1 / n, 0.01, 10)
    learning = 2 * eta * study.noise**2 * sum(c ** (2 * (T + K - 1 - k)) for k in range(T))
    unit = 2 * eta * sum(c ** (2 * k) for k in range(K))
    expected = math.sqrt(((shift / mu) ** 2 - learning) / unit)
    assert toy.uniform_noise(1.0) == pytest.approx(expected, rel=1e-6)
    assert toy.uniform_noise(1.0, 0.5) > expected
    assert toy.uniform_noise(2.0) < expected


def test_a_noise_of_a_table_is_what_the_model_would_take(toy):
    row = toy.chosen()[1]
    certificate = toy.model.unlearn(row, epsilon=1.0, n_unlearn_steps=4)
    assert certificate.noise == pytest.approx(toy.noises[row])
    fresh = Engine(toy.study, toy.data)
    assert fresh.noise_of(row, 1.0) == pytest.approx(toy.noises[row])
    assert fresh.noise_of(row, 4.0) < toy.noises[row]


def test_margins_by_hand():
    scores = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [0.0, 5.0, 0.0]])
    expected = [3 - np.log(np.e + np.e**2), -np.log(2), -np.log(1 + np.e**5)]
    np.testing.assert_allclose(margins(scores, np.array([2, 0, 0])), expected)
    np.testing.assert_allclose(margins(np.array([[0.0, 1.5]]), np.array([0])), [-1.5])


def test_rows_are_chosen_by_their_noise(toy):
    ordered = np.sort(toy.noises)
    places = np.round(np.array([0.05, 0.5, 0.95, 1.0]) * (len(ordered) - 1)).astype(int)
    np.testing.assert_array_equal(toy.noises[toy.chosen()], ordered[places])


# Tables


def test_flipped_labels_by_hand():
    y = np.repeat([3, 8, 9], 20)
    labels, flipped = flips.flip(y, 0.1, np.random.default_rng(0))
    assert flipped.sum() == 6
    np.testing.assert_array_equal(flipped, labels != y)
    assert set(labels) == {3, 8, 9}
    noises, flipped = np.array([1.0, 5.0, 3.0, 4.0]), np.array([False, True, True, False])
    assert flips.among_first(noises, flipped) == 0.5
    assert flips.auc(noises, flipped) == pytest.approx(3 / 4)
    assert flips.auc(np.ones(4), flipped) == pytest.approx(1 / 2)


def test_losses_order_rows_as_models_without_them_do(made_up):
    """-margin is a function of the loss; held-out losses by folds written out."""
    toy = one("mnist38")
    X, y = toy.data.X, toy.data.y
    told = flips.held_out_losses(toy)
    likely = np.empty(len(X))
    for train, test in StratifiedKFold(5, shuffle=True, random_state=toy.study.seed).split(X, y):
        model = LogisticRegression(C=1 / toy.study.alpha, fit_intercept=False, max_iter=10_000)
        places = np.searchsorted(np.unique(y), y[test])
        likely[test] = model.fit(X[train], y[train]).predict_proba(X[test])[
            np.arange(len(test)), places
        ]
    np.testing.assert_allclose(told, np.log((1 - likely) / likely), rtol=1e-6, atol=1e-9)


def test_the_ends_are_the_dearest_and_the_cheapest(made_up):
    for name in ("mnist38", "vader"):
        toy = one(name)
        table = noise.ends(toy, noise.rows(toy))
        order = np.argsort(toy.noises)
        assert list(table["row"]) == [*order[::-1][:2], *order[:2]]
        assert list(table["end"]) == ["dear", "dear", "cheap", "cheap"]
        for line in table.to_dict("records"):
            shown = toy.data.shown[line["row"]]
            if name == "vader":
                assert line["text"] == shown
            else:
                assert [line[f"p{k}"] for k in range(784)] == shown.ravel().tolist()


def test_a_row_is_told_by_its_label_prediction_and_margin(toy):
    table, names = noise.rows(toy), toy.data.names
    predicted = toy.model.predict(toy.data.X)
    assert list(table["label"]) == [names[label] for label in toy.data.y]
    assert list(table["predicted"]) == [names[label] for label in predicted]
    right = table["label"] == table["predicted"]
    if len(names) == 2:
        np.testing.assert_array_equal(table["margin"] > 0, right)
    likely = toy.model.predict_proba(toy.data.X)[np.arange(len(right)), toy.places]
    np.testing.assert_allclose(table["margin"], np.log(likely / (1 - likely)), atol=6e-4)


def test_accuracies_are_of_every_row_and_epsilon_once(made_up):
    toy = one("mnist38")
    table = accuracy.compute(toy)["accuracy"]
    assert len(table) == (4 + 1) * 3
    assert table.set_index(["kind", "quantile", "epsilon"]).index.is_unique
    uniform = table[table["kind"] == "uniform"]
    assert list(uniform["noise"]) == [toy.uniform_noise(e) for e in (0.5, 1.0, 4.0)]
    own = table[(table["kind"] == "own") & (table["epsilon"] == 1.0)]
    np.testing.assert_allclose(own["noise"], toy.noises[toy.chosen()], rtol=1e-9)
    assert (table["runs"] == 3).all()


def test_a_mean_of_losses_is_a_sum_with_other_numbers(made_up):
    """Steps of the mean, written out, are those of the sum with n lam and sigma sqrt(n)."""
    toy = one("mnist38")
    X, y, n = toy.data.X, toy.data.y, len(toy.data.X)
    lam, sigma = toy.study.alpha, toy.study.noise
    eta = 1 / (lam + 0.25 * np.linalg.norm(X, 2) ** 2 / n)
    study = replace(toy.study, alpha=lam * n, noise=sigma * math.sqrt(n))
    other, rng, theta = Engine(study, toy.data), np.random.default_rng([0, 1]), 0.0
    theta = np.zeros((X.shape[1], 3))
    for _ in range(study.n_steps):
        gradient = X.T @ (1 / (1 + np.exp(-X @ theta)) - (y == 2)[:, None]) / n + lam * theta
        theta = theta - eta * gradient
        theta = theta + np.sqrt(2 * eta) * sigma * rng.standard_normal(theta.shape)
    np.testing.assert_allclose(other.learned, theta, atol=1e-9)


@pytest.mark.parametrize("name", ["mnist38", "mnist"])
def test_learning_comes_down_to_the_minimum(name, made_up):
    """The objective written out, and a minimum at which its slope is none."""
    toy = one(name)
    X, y, alpha, theta = toy.data.X, toy.data.y, toy.study.alpha, toy.model.fitted_.theta
    z = X @ theta
    z = np.hstack([0 * z, z]) if z.shape[1] == 1 else z
    own = (np.unique(y) == y[:, None]) * 1.0
    loss = np.log(np.exp(z).sum(axis=1)) - (z * own).sum(axis=1)
    expected = (loss.sum() + alpha / 2 * np.sum(theta**2)) / len(X)
    assert horizons.objective(toy, theta) == pytest.approx(expected)
    table = horizons.compute(toy)["horizons"]
    assert list(table["learning_steps"]) == [3, 15, 60]
    eta, start = toy.model.step_size_, np.zeros_like(theta)
    least = literal_steps(X, y, start, alpha, eta, 0.0, 3000, np.random.default_rng(0))
    assert table["least_objective"][0] == pytest.approx(horizons.objective(toy, least), rel=1e-5)
    assert (table["objective"] > table["least_objective"]).all()
    assert table["objective"][1] == pytest.approx(expected)


# All of it


@pytest.fixture(scope="module")
def made(made_up, tmp_path_factory):
    root = tmp_path_factory.mktemp("smooth")
    store, figures = Store(root / "results"), root / "figures"
    made_up.setitem(STORES, "toy", store)
    made_up.setitem(FIGURES, "toy", figures)
    engine.engine.cache_clear()
    data.load.cache_clear()
    smooth.compute_studies("toy")
    smooth.render_all(store, figures)
    return store, figures


def test_every_table_is_stored_with_its_provenance(made):
    store, _ = made
    for name, study in TOYS.items():
        for table in of_study(TABLES, name):
            assert store.has(f"smooth-{name}-{table}", study.describe())
            told = store.provenance(f"smooth-{name}-{table}")
            assert told["delta"] == 1 / told["data"]["rows"]["train"]
    assert not store.holds("smooth-vader-flips")


def test_tables_that_are_there_are_kept(made, capsys):
    smooth.compute_studies("toy")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * 4 + sum(map(len, ONLY.values()))
    assert all("is there already" in line for line in lines)


def test_every_picture_is_drawn(made):
    _, figures = made
    names = {"smooth-noise", "smooth-accuracy", "smooth-rows", "smooth-flips", "smooth-vader-texts"}
    assert {path.name for path in figures.iterdir()} == {
        f"{name}.{kind}" for name in names for kind in ("pdf", "png")
    }
    for name in names:
        with Image.open(figures / f"{name}.png") as image:
            assert image.width == pytest.approx(1008, abs=1)
            low, high = image.convert("L").getextrema()
            assert low < 64 < 192 < high  # something dark on something light


def test_pictures_can_be_drawn_of_one_study(made, tmp_path):
    store, _ = made
    some = Store(tmp_path / "some")
    some.folder.mkdir()
    for path in store.folder.glob("smooth-vader-*"):
        (some.folder / path.name).write_bytes(path.read_bytes())
    for name in ("noise", "accuracy", "rows"):
        script("render", name).render(some, tmp_path / "figures")
    assert (tmp_path / "figures" / "smooth-noise.png").exists()
    with pytest.raises(SystemExit, match="make reproduce"):
        script("render", "flips").render(some, tmp_path / "figures")


def test_the_page_tells_what_was_measured(made):
    store, _ = made
    told = page.page(store)
    s = store.read("smooth-cifar10-summary").iloc[0]
    assert f"| {s['median']:.2g} | {s['most']:.3g} | {s['uniform']:.3g} |" in told
    flipped = store.read("smooth-mnist38-flips_summary")
    for order in ("noise", "loss", "held_out"):
        assert f"| {flipped[f'auc_{order}'].mean():.3f} (" in told
    assert "good / indeed" in told


def test_scripts_can_be_called(made, monkeypatch):
    store, figures = made
    for part, names in (("compute", TABLES), ("render", PICTURES)):
        for name in names:
            module = script(part, name)
            assert callable(getattr(module, part))
            assert f"python -m experiments.smooth.{part}.{name} " in module.__doc__
        folder = ROOT / "experiments" / "smooth" / part
        assert {path.stem for path in folder.glob("*.py")} == {*names, "__init__"}
    monkeypatch.setattr("sys.argv", ["noise", "--size", "toy"])
    drawn = []
    command.render_script("doc", lambda *given: drawn.append(given))
    assert drawn == [(store, figures)]


# What is stored


@pytest.mark.parametrize("name", STORED)
def test_a_stored_table_was_computed_by_the_settings_of_today(name):
    study = STUDIES["full"][name.split("-")[1]]
    told = json.loads((RESULTS / f"{name}.json").read_text())
    assert told["config"] == json.loads(json.dumps(asdict(study)))
    assert re.fullmatch("[0-9a-f]{64}", told["data"]["sha256"])
    assert told["delta"] == 1 / told["data"]["rows"]["train"]


def test_all_studies_are_stored_and_told():
    wanted = {f"smooth-{s}-{t}" for s in STUDIES["full"] for t in of_study(TABLES, s)}
    assert wanted <= set(STORED)


def test_a_quick_study_differs_in_size_only():
    for name, full in STUDIES["full"].items():
        quick = STUDIES["quick"][name]
        same = ("alpha", "noise", "quantiles", "seed", "share_flipped", "n_shown")
        assert all(getattr(quick, field) == getattr(full, field) for field in same)
        assert set(quick.epsilons) <= set(EPSILONS)
        assert 1.0 in quick.epsilons  # where accuracies are told
    assert isinstance(STORES["full"].read("smooth-mnist38-noise"), pd.DataFrame)
