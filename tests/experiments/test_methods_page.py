"""Deleted images found again, and what pages and pictures make of tables."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from experiments.methods import exposures, page, page_releases, reconstruction, side_by_side
from experiments.methods.config import METHODS, SETTINGS, SHARES, Reconstructions
from experiments.methods.contestants import parameters
from experiments.methods.data import Case
from experiments.methods.reconstruction import Attacker
from experiments.methods.reconstruction_kinds import CAPPED, DEFAULT, EXACT, KINDS, NEVER
from experiments.methods.render import PICTURES, render
from experiments.methods.render import reconstruction as drawn
from experiments.methods.summary import cell, constant_loss, tables
from experiments.store import STORES, Store
from matplotlib.figure import Figure
from PIL import Image
from scipy.stats import binom

from pilu import Forgetful

# Reconstruction


@pytest.fixture(scope="module")
def study():
    """Images of 3 x 3 pixels of three kinds, with noise of their own."""
    rng = np.random.default_rng(31)
    y = np.arange(160) % 3
    kinds = rng.random((3, 9))
    images = np.clip(0.6 * kinds[y] + 0.4 * rng.random((160, 9)), 0, 1)
    return reconstruction.pixels_of("digits", 0.5, images, y, n_learned=120)


def solved(study, rows):
    """Ridge to targets of 1 and -1, by the normal equations."""
    X, Y = study.X[rows], 2.0 * np.eye(3)[study.y[rows]] - 1
    A = X.T @ X + study.alpha * np.eye(10)
    return A, np.linalg.solve(A, X.T @ Y)


def test_a_row_is_solved_for_from_exact_models(study):
    everything = np.arange(120)
    _, before = solved(study, everything)
    np.testing.assert_allclose(parameters(study.head.fit(study.X, study.y)), before, atol=1e-9)
    for row in (0, 17, 101):
        A, after = solved(study, np.delete(everything, row))
        r = (2.0 * np.eye(3)[study.y[row]] - 1) - study.X[row] @ before
        x = A @ (before - after) @ r / (r @ r)  # the test's own: the residual is known
        np.testing.assert_allclose(x, study.X[row], atol=1e-7)
        found = reconstruction.rank_one(before - after, study.without(row))
        np.testing.assert_allclose(found, x, atol=1e-7)


def test_the_best_row_is_that_of_bayes(study):
    """Against the posterior mean in its other form, on the pixels that are not known."""
    A, after = solved(study, np.arange(1, 120))
    attacker = Attacker(A, after, study.X[1:], np.linalg.cholesky(A).T)
    mean, covariance = attacker.prior
    np.testing.assert_allclose(mean, study.X[1:].mean(axis=0))
    S, deviation = np.linalg.cholesky(A).T @ np.linalg.inv(A), 0.02
    seen = S @ study.X[0] + deviation * np.random.default_rng(1).normal(size=10)
    precision = np.linalg.inv(covariance[:9, :9]) + S[:, :9].T @ S[:, :9] / deviation**2
    off = np.linalg.solve(precision, S[:, :9].T @ (seen - S @ mean) / deviation**2)
    found = attacker.best_row(seen, deviation)
    np.testing.assert_allclose(found[:9] - mean[:9], off, atol=1e-6)
    assert found[9] == pytest.approx(1.0)


def test_default_noise_has_the_stated_spread(study):
    sigma = Forgetful(study.head).fit(study.X, study.y).unlearn(rows=[0]).noise
    releases = [parameters(Forgetful(study.head).fit(study.X, study.y)) for _ in range(60)]
    spread = np.sqrt(np.var(releases, axis=0, ddof=1).mean(axis=1))  # three outputs, one size
    stated = reconstruction.default_spread(study.X, sigma)
    np.testing.assert_allclose(spread, stated, rtol=0.3)
    np.testing.assert_allclose(np.exp(np.mean(np.log(spread / stated))), 1, rtol=0.1)


@pytest.fixture(scope="module")
def attacked(study):
    config = Reconstructions(data=("digits",), n_rows=40, n_shown=3)
    return config, *reconstruction.attacked(study, config)


def test_attacks_find_what_they_should(attacked, study):
    _, lines, pixels, models = attacked
    likeness = {kind: some["likeness"] for kind, some in lines.groupby("kind")}
    assert set(likeness) == set(KINDS)
    assert (likeness[EXACT] > 1 - 1e-9).all()
    assert likeness["mean"].abs().max() == 0
    for kind in (NEVER, CAPPED.format(1)):  # 40 cosines in nine dimensions
        assert abs(likeness[kind].mean()) < 4 * (1 / 9 / 40) ** 0.5 + 0.05
    assert likeness[DEFAULT].abs().median() > 0.9  # up to the sign, which noise hides best
    # Likeness is a cosine about the mean of the others, by the pixels that are shown.
    for row in pixels["row"].unique():
        shown = pixels[pixels["row"] == row].set_index("kind")["pixels"]
        levels = {kind: drawn.picture_of(text).ravel() / 99 for kind, text in shown.items()}
        np.testing.assert_allclose(levels["original"], study.X[row][:9], atol=0.006)
        mean = np.delete(study.X, row, axis=0).mean(axis=0)[:9]
        a, b = levels["class mean"] - mean, study.X[row][:9] - mean
        cosine = a @ b / math.sqrt((a @ a) * (b @ b))
        stated = lines[(lines["row"] == row) & (lines["kind"] == "class mean")]["likeness"]
        assert stated.iloc[0] == pytest.approx(cosine, abs=0.05)
    exact = np.argmax(study.public @ solved(study, np.arange(120))[1], axis=1)
    accuracy = models.set_index("kind")["accuracy"]
    assert accuracy[EXACT] == pytest.approx(np.mean(exact == study.public_y))


def test_pictures_survive_the_store(attacked, tmp_path):
    """A line of digits is no number to whoever reads the table."""
    _, _, pixels, _ = attacked
    store = Store(tmp_path)
    store.write("pixels", pixels, {})
    assert list(store.read("pixels")["pixels"]) == list(pixels["pixels"])
    assert drawn.picture_of("x000199" + "07" * 6)[0].tolist() == [0, 1, 99]


def test_intervals_are_bootstrap_percentiles():
    """P(median of 31 draws <= k-th of 31 values) = P(Bin(31, k/31) >= 16), up to one value."""
    values = np.random.default_rng(3).gamma(2.0, size=31)
    middle, low, high = drawn.interval(values)
    ordered = sorted(values)
    assert middle == ordered[15]
    below = binom.sf(15, 31, np.arange(1, 32) / 31)
    for found, share in ((low, 0.025), (high, 0.975)):
        k = np.searchsorted(below, share)
        assert ordered[k - 1] <= found <= ordered[k + 1]
    assert low < middle < high


@pytest.mark.slow
def test_intervals_cover_the_median():
    rng = np.random.default_rng(4)
    found = [drawn.interval(rng.gamma(2.0, size=30))[1:] for _ in range(400)]
    covered = np.mean([low <= 1.67834699 <= high for low, high in found])
    assert 0.91 < covered < 0.985


# Pages and pictures


def line(data, method, share, repeat, **numbers):
    """A line of a table of methods."""
    return {
        "data": data,
        "method": method,
        "share": share,
        "repeat": repeat,
        "measure": "RMSE" if data == "diabetes" else "accuracy",
        "n_people": 1,
        "n_rows": 1,
        "constant": 2.0 if data == "diabetes" else 0.1,
        "before": 0.9,
        "after": 0.9,
        "seconds": 0.5,
        "epsilon": 0.1 if method == "refit" else 1.0,
        "delta": 1e-9 if method == "refit" else 1e-3,
        "certified": True,
        "against": "",
        "noise": 0.1,
        "why": "",
    } | numbers


def given(changes):
    """Two data sets in a store; `changes` are numbers by data, method and share."""
    for data in ("digits", "diabetes"):
        lines = [
            line(data, method, share, repeat, **changes.get((data, method, share), {}))
            for method in METHODS
            for share in SHARES
            for repeat in range(2)
        ]
        yield data, pd.DataFrame(lines)


CONFIG = {"config": {"epsilon": 1.0, "delta": 1e-6, "redraw_steps": 77}}
INSIDE = {  # the best of three T, and of three T and three thresholds, with none of them at an end
    "Langevin": [[0.5, 0.9, 0.6]],
    "DP-GD": [[0.1, 0.2, 0.1], [0.2, 0.8, 0.3], [0.1, 0.3, 0.1]],
}


def grid(data, scores):
    """A tuning table: a line of scores for each threshold, one for each T."""
    for method, lines in scores.items():
        for k, line in enumerate(lines):
            for T, score in zip((10, 30, 100), line, strict=True):
                clipping = (0.1, 0.3, 1.0)[k] if method == "DP-GD" else math.nan
                noise = 0.01 if method == "Langevin" else math.nan
                yield {
                    "data": data,
                    "method": method,
                    "n_steps": T,
                    "noise": noise,
                    "clipping": clipping,
                    "score": -score if data == "diabetes" else score,
                }


def stored(folder, changes=None, scores=INSIDE):
    store = Store(folder)
    for data, table in given(changes or {}):
        store.write(f"methods_{data}", table, CONFIG)
        store.write(f"methods_{data}_tuning", pd.DataFrame(grid(data, scores)), CONFIG)
    return store


def test_losses_are_against_retraining_of_the_same_request(tmp_path):
    changes = {
        ("digits", "refit", "1 %"): {"after": 0.88},
        ("diabetes", "refit", "1 %"): {"after": 0.99},
        ("digits", "retraining", "10 %"): {"after": 0.8},
    }
    found = tables(stored(tmp_path, changes))
    assert cell(found["digits"], "refit", "1 %").loss == pytest.approx(2.0)  # points
    assert cell(found["diabetes"], "refit", "1 %").loss == pytest.approx(10.0)  # per cent
    assert cell(found["digits"], "refit", "10 %").loss == pytest.approx(-10.0)
    assert cell(found["digits"], "refit", "one person").loss == pytest.approx(0.0, abs=1e-9)
    assert constant_loss(found["diabetes"]) == pytest.approx(100 * (2.0 / 0.9 - 1))


def test_verdicts_follow_the_numbers(tmp_path):
    equal = page.side_by_side(stored(tmp_path / "equal"))
    assert "Refit loses nothing that can be seen" in equal
    assert "on 0 of 2 data sets (Langevin) and on 0 of 2 data sets (Newton step)" in equal
    assert "and less on 0 of 2 data sets" in equal
    assert "All epsilons are certified, given their constants." in equal
    assert "unfinished learning" not in equal
    assert "No answer" not in equal
    changes = {
        ("digits", "refit", "10 %"): {"after": 0.85},
        ("digits", "refit", "one person"): {"seconds": 0.25},
        ("digits", "Langevin", "10 %"): {"after": 0.5},
        ("diabetes", "Newton step", "1 %"): {"certified": False},
        ("diabetes", "DP-GD", "10 %"): {"epsilon": 4321.0},
        ("digits", "DP-GD", "10 %"): {"epsilon": 8765.0},
    }
    other = page.side_by_side(stored(tmp_path / "other", changes)).replace("\n", " ")
    assert "nothing that can be seen" not in other
    assert "Refit loses up to 5.00" in other
    assert "on 1 of 2 data sets (Langevin)" in other
    assert "and less on 1 of 2 data sets" in other
    assert "Not certified: diabetes, regression, Newton step." in other
    assert "to 4,321 or more for 10 % of the people" in other
    # Points and per cent are not compared with each other.
    points, per_cent = other.split("| largest loss, ")[1:]
    assert points.startswith("points | refit | redraw | Langevin |")
    assert "| 10 % | 5.00 | 0.00 | 40.00 | 0.00 | 0.00 |" in points
    assert per_cent.startswith("per cent of RMSE |")
    assert "| 10 % | 0.00 | 0.00 | 0.00 | 0.00 | 0.00 |" in per_cent


def test_cells_have_the_range_of_the_repeats(tmp_path):
    store = stored(tmp_path)
    found = store.read("methods_digits")
    some = (found["method"] == "DP-GD") & (found["share"] == "1 %")
    found.loc[some, "after"] = [0.85, 0.88]
    store.write("methods_digits", found, CONFIG)
    assert "| 0.00 | 3.50 (2.00 to 5.00) |" in page.side_by_side(store)
    assert "means over 2 repeats" in page.side_by_side(store)


def test_ends_of_grids_are_told(tmp_path):
    """Negated for errors: the same settings are the best of both data sets."""
    words = page.side_by_side(stored(tmp_path / "inside")).replace("\n", " ")
    assert "Langevin has 3 settings, and the best is at an end of its grid on 0 of 2" in words
    assert "DP-GD has 9 settings, and the best is at an end of its grid on 0 of 2" in words
    assert "largest gain at an end" not in words
    rising = INSIDE | {"DP-GD": [[0.1, 0.2, 0.1], [0.2, 0.8, 0.3], [0.1, 0.85, 0.1]]}
    words = page.side_by_side(stored(tmp_path / "rising", scores=rising)).replace("\n", " ")
    assert "DP-GD has 9 settings, and the best is at an end of its grid on 2 of 2" in words
    assert "digits, ten classes, where DP-GD scores 0.20, 0.80, 0.85 at thresholds of" in words
    falling = INSIDE | {"Langevin": [[0.9, 0.8, 0.6]]}
    words = page.side_by_side(stored(tmp_path / "falling", scores=falling)).replace("\n", " ")
    assert "Langevin has 3 settings, and the best is at an end of its grid on 2 of 2" in words
    assert "largest gain at an end" not in words  # it loses nothing there that more would bring


def test_a_redraw_that_has_not_learned_is_told_from_one_that_forgets(tmp_path):
    few = {("digits", "redraw", "one person"): {"after": 0.85, "before": 0.84}}
    words = page.side_by_side(stored(tmp_path / "few", few)).replace("\n", " ")
    assert "digits, ten classes: 5.0 with the request, 6.0 before it, since T = 77" in words
    worse = {("digits", "redraw", "one person"): {"after": 0.85}}
    assert "unfinished learning" not in page.side_by_side(stored(tmp_path / "worse", worse))


def nothing(why):
    numbers = ("before", "after", "seconds", "epsilon", "delta", "noise")
    return {"why": why, "certified": False} | dict.fromkeys(numbers, math.nan)


REFUSED = {
    ("digits", "Newton step", share): nothing(
        "not offered: X must be at most 20,000 parameters for it"
    )
    for share in SHARES
} | {("diabetes", "Langevin", "10 %"): nothing("an answer took longer than 60 s")}


def test_reasons_are_told_and_their_numbers_are_not(tmp_path):
    text = page.side_by_side(stored(tmp_path, REFUSED))
    assert "- digits, ten classes, Newton step: not offered: X must be at most 20,000" in text
    ours = text.replace("\n", " ").split("Such limits are ours and not the methods': ")[1]
    assert "Newton steps for 20,000 parameters at most" in ours
    assert "this study stops a method after 60 s." in ours
    assert "- diabetes, regression, Langevin (10 %): an answer took longer than 60 s." in text
    tables_of_losses, _ = text.split("**The largest loss**")
    assert tables_of_losses.count("no answer") == len(REFUSED)
    assert "nan" not in text
    everywhere = {
        (data, "refit", share): nothing("broken")
        for data in ("digits", "diabetes")
        for share in SHARES
    }
    text = page.side_by_side(stored(tmp_path, everywhere))
    assert "Refit gives no answer." in text
    assert "Such limits" not in text
    assert "nan" not in text


def curves(least, most=10_000.0):
    return pd.DataFrame(
        {
            "data": "digits",
            "release": ["default"] * 4 + ["cap 10"] * 4,
            "people": 4,
            "share": [0.25, 0.5, 0.75, 1.0] * 2,
            "epsilon": [np.inf, most, least, least, 9.0, 5.0, 3.0, 1.0],
            "infinite": [0.25] * 4 + [0.0] * 4,
            "median": [least] * 4 + [3.0] * 4,
        }
    )


def with_releases(store, *, least=500.0, capped=0.0, never=0.0, default=1.0):
    store.write("methods_exposure_digits", curves(least), CONFIG)
    means = {"no noise": 0.9, "default": 0.9, "cap 1": math.nan, "cap 10": 0.7, "cap 100": 0.8}
    costs = [
        {
            "data": "digits",
            "measure": "accuracy",
            "release": release,
            "cap": float(release[4:]) if release.startswith("cap") else math.inf,
            "mean": mean,
            "low": mean - 0.01,
            "high": mean + 0.01,
            "constant": 0.1,
            "why": "",
        }
        for release, mean in means.items()
    ]
    store.write("methods_exposure_digits_costs", pd.DataFrame(costs), CONFIG)
    likeness = dict.fromkeys(KINDS, 0.5) | {EXACT: 1.0, DEFAULT: default, NEVER: never, "mean": 0.0}
    likeness |= {CAPPED.format(10): capped, CAPPED.format(1): 0.0}
    jitter = np.linspace(-0.02, 0.02, 9)
    lines = [
        {"data": "digits", "row": k, "label": 1, "kind": kind, "likeness": value + jitter[k]}
        for kind, value in likeness.items()
        for k in range(9)
    ]
    store.write("methods_reconstruction_digits", pd.DataFrame(lines), CONFIG)
    models = {EXACT: 0.9, DEFAULT: 0.9, CAPPED.format(10): 0.6, CAPPED.format(1): 0.2}
    models = pd.DataFrame({"kind": list(models), "accuracy": list(models.values())})
    store.write("methods_reconstruction_digits_models", models, CONFIG)
    pixels = [
        {"data": "digits", "row": k, "label": 1, "kind": kind, "pixels": "x" + "0199" * 8}
        for kind in ("original", *KINDS)
        for k in range(2)
    ]
    store.write("methods_reconstruction_digits_pixels", pd.DataFrame(pixels), CONFIG)
    return store


def test_words_on_releases_follow_the_numbers(tmp_path):
    store = with_releases(stored(tmp_path))
    text = page.section(store)
    assert "Default noise hides hardly anybody: 0.0% of the people" in text
    assert "| 90.0% | 70.0% | not tried | cannot be reached |" in text
    assert text.count("this attack finds nothing") == 2
    assert "Exact models give the image away (median likeness 1.00)" in text.replace("\n", " ")
    assert "from 90.0% to 60.0%" in text.replace("\n", " ")
    assert "default releases give the image away" in text.replace("\n", " ")
    assert "negatives" not in text
    assert "nan" not in text
    with_releases(store, least=2.0, capped=0.4, default=-0.9)
    text = page.section(store).replace("\n", " ")
    assert "Default noise hides some people: 50.0% of the people" in text
    assert "With a cap of 10 this attack still finds something." in text
    assert "With a cap of 1 this attack finds nothing" in text
    assert "default releases do not always give the image away" in text
    assert "9 are negatives of the image" in text
    # As like as an answer about an image that was never learned is nothing, and only then.
    with_releases(store, capped=0.3, never=0.3)
    assert page.section(store).count("this attack finds nothing") == 2


def test_paragraphs_are_no_longer_than_lines(tmp_path):
    text = page.section(with_releases(stored(tmp_path, REFUSED)))
    prose = [some for some in text.splitlines() if not some.startswith(("|", "!", "- "))]
    assert max(map(len, prose)) <= 100
    assert [some for some in prose if some.startswith("## ")] == [
        "## Six methods side by side",
        "## Exposure of everybody",
        "## Deleted images, found again",
    ]


def test_pictures_hold_every_number(tmp_path, monkeypatch):
    changes = REFUSED | {
        ("digits", "DP-GD", "10 %"): {"epsilon": 4e5, "after": 0.95},
        ("diabetes", "DP-GD", "10 %"): {"epsilon": 4e5, "after": 9.0},  # 900 % worse
        ("digits", "redraw", "1 %"): {"after": 0.97},
    }
    store = with_releases(stored(tmp_path / "tables", changes))
    seen = []
    kept = Figure.savefig

    def savefig(figure, *arguments, **options):  # the axes, while the file is written
        seen.append(figure)
        return kept(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", savefig)
    render(store, tmp_path / "figures")
    for name in PICTURES:
        with Image.open(tmp_path / "figures" / f"{name}.png") as image:
            assert image.width <= 1010
            assert np.ptp(np.asarray(image.convert("L"))) > 100
    losses, _, epsilons = seen[0].axes[-3:]
    assert epsilons.get_xlim()[1] > 4e5
    assert losses.get_xlim()[0] < -7
    words = [text.get_text() for panel in seen[0].axes for text in panel.texts]
    assert "not offered" in words
    assert "10 %: no answer within 60 s" in words


# The whole study, at a toy size


def test_the_study_computes_what_pages_read(tmp_path, monkeypatch):
    """Two data sets of a few rows, from the data to the page."""
    rng = np.random.default_rng(8)
    X = np.hstack([rng.normal(size=(150, 3)), np.ones((150, 1))])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (X[:, 0] > 0).astype(int)
    case = Case("digits", 0.3, X[:100], y[:100], np.arange(100), X[100:], y[100:])
    images = np.clip(rng.random((160, 9)) * (1 + np.arange(160)[:, None] % 3) / 3, 0, 1)
    pixels = reconstruction.pixels_of("digits", 0.5, images, np.arange(160) % 3, n_learned=120)
    quick = SETTINGS["quick"]
    toy = replace(
        quick,
        size="toy",
        side_by_side={"digits": quick.side_by_side["digits"]},
        exposures=replace(quick.exposures, data=("digits",)),
    )
    store = Store(tmp_path)
    monkeypatch.setitem(STORES, "toy", store)
    monkeypatch.setitem(SETTINGS, "toy", toy)
    for module in (side_by_side, exposures):
        monkeypatch.setattr(module, "load", lambda *_: case)
    monkeypatch.setattr(reconstruction, "load", lambda *_: pixels)
    side_by_side.compute("toy", "digits")
    exposures.compute("toy")
    reconstruction.compute("toy")
    text = page.section(store)
    assert "nan" not in text
    assert "not tried" in text  # the quick plan has no cap of 3
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    exposures.compute("toy")  # is there already
    assert before == {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert page_releases.delta(store) == 1e-6
