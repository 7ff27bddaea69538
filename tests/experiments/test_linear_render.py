"""Every picture out of toy tables: written, of a journal's width, and the same twice."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from experiments.linear.config import TUNED_RUNS
from experiments.linear.figures import PICTURES, TABLES, of_study, script
from experiments.linear.render import curves, rows
from experiments.linear.render.noise import noise as draw_noise
from experiments.style import COLUMN, PAGE, colours, figure, row_styles
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

DRAWN = [(study, name) for study in ("depth", "mnist") for name in of_study(PICTURES, study)]
# What the scripts do not call by their own names, or draw more than once.
TUNED = f"DP-GD, tuned ({TUNED_RUNS} runs)"
FILES = {
    ("depth", "rows"): ["depth_scene", "depth_patches"],
    ("depth", "privacy_utility"): ["depth_privacy_utility", "depth_privacy_utility_ends"],
    ("depth", "noise"): ["depth_noise", "depth_noise_ends"],
}


def files_of(study, name):
    return FILES.get((study, name), [f"{study}_{name}"])


def test_no_picture_is_forgotten(reproduced):
    made = {path.name for path in reproduced.figures.iterdir()}
    files = ["schematic", *(file for given in DRAWN for file in files_of(*given))]
    assert made == {f"{file}.{kind}" for file in files for kind in ("pdf", "png")}
    assert {"depth_minibatches.pdf", "mnist_rows.pdf"} <= made
    assert "mnist_minibatches.pdf" not in made
    assert f"pictures are in {reproduced.figures}" in reproduced.printed


@pytest.mark.parametrize(("study", "name"), DRAWN)
def test_a_picture_is_as_wide_as_a_column_or_a_page(study, name, reproduced):
    for file in files_of(study, name):
        assert (reproduced.figures / f"{file}.pdf").read_bytes().startswith(b"%PDF")
        with Image.open(reproduced.figures / f"{file}.png") as image:
            assert image.width == pytest.approx(144 * PAGE, abs=1)
            assert image.info["dpi"] == pytest.approx((144, 144), abs=0.1)
            low, high = image.convert("L").getextrema()
            assert low < 64 < 192 < high  # something dark on something light


# One of each kind: a second picture costs a second.
@pytest.mark.parametrize(
    ("study", "name"),
    [
        ("depth", "rows"),
        ("mnist", "rows"),
        ("depth", "sensitivities"),
        ("mnist", "privacy_utility"),
        ("mnist", "learning_steps"),
        ("depth", "minibatches"),
    ],
)
def test_the_same_tables_give_the_same_file(study, name, reproduced, tmp_path, monkeypatch):
    save = Figure.savefig

    def only_pdf(self, path, **options):
        if path.suffix == ".pdf":
            save(self, path, **options)

    monkeypatch.setattr(Figure, "savefig", only_pdf)
    open_before = plt.get_fignums()
    script("render", name).render(reproduced.store, study, tmp_path)
    for file in files_of(study, name):
        pdf, again = (
            (folder / f"{file}.pdf").read_bytes() for folder in (reproduced.figures, tmp_path)
        )
        assert pdf == again
        assert b"CreationDate" not in pdf
    assert plt.get_fignums() == open_before


def test_every_table_of_a_study_is_stored(reproduced):
    made = {path.stem for path in reproduced.store.folder.glob("*.csv")}
    for study in ("depth", "mnist"):
        assert {f"{study}_{name}" for name in of_study(TABLES, study)} <= made
    assert {"depth_map", "mnist_pixels", "depth_cost", "depth_residuals"} <= made
    assert not {name for name in made if name.startswith("mnist_minib")}


def test_tables_are_printed_with_the_pictures(reproduced):
    assert "depth: examples processed at one training error" in reproduced.printed
    for line in reproduced.store.read("depth_cost").itertuples():
        assert f"{line.total_cost}" in reproduced.printed
    residuals = reproduced.store.read("mnist_residuals")
    assert f"{residuals['perturbed'][0]:.6g}" in reproduced.printed


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """The axes of pictures, before they are closed; nothing is written."""

    def draw(render, *given):
        kept = []
        with monkeypatch.context() as patch:
            patch.setattr(Figure, "savefig", lambda self, path, **options: None)
            patch.setattr(plt, "close", kept.append)
            render(*given, tmp_path)
        found = [made.axes for made in dict.fromkeys(kept)]
        for made in kept:
            plt.close(made)
        return found

    return draw


def with_marks(panel):
    """Error bars that have marks; the legend's explanation of them has none."""
    return [bars for bars in panel.containers if len(bars[0].get_xdata())]


def test_curves_are_those_of_the_table(reproduced, drawn):
    """Means with one deviation to each side, on the expectation, panel by panel."""
    store = reproduced.store
    table = store.read("depth_privacy_utility")
    (left, right), _ = drawn(script("render", "privacy_utility").render, store, "depth")
    for panel, accountant in ((left, "theorem"), (right, "exact")):
        names = curves.labels(store, "depth", "three")
        assert len(with_marks(panel)) == len(names) == 3
        for bars, (row, label) in zip(with_marks(panel), names.items(), strict=True):
            here = (table["row"] == row) & (table["accountant"] == accountant)
            some = table[here & (table["set"] == "three")]
            marks, _, (lines,) = bars
            np.testing.assert_allclose(marks.get_xydata(), some[["epsilon", "mean"]])
            heights = [np.ptp(segment[:, 1]) for segment in lines.get_segments()]
            np.testing.assert_allclose(heights, 2 * some["sd"])
            assert bars.get_label() == label
            assert label.endswith(f"(row {row})")
            expected = [line.get_ydata() for line in panel.lines if len(line.get_ydata()) == 3]
            assert any(np.array_equal(found, some["expected"]) for found in expected)
    assert left.get_xscale() == left.get_yscale() == "log"
    assert left.get_ylabel() == "test RMSE (m)"


def test_dp_gd_stands_beside_its_own_accounting(reproduced, drawn):
    ((left, right),) = drawn(script("render", "dp_gd").render, reproduced.store, "depth")
    for name, label in (("dp_gd", "DP-GD, as in the paper"), ("dp_gd_tuned", TUNED)):
        table = reproduced.store.read(f"depth_{name}")
        for panel, accounting in ((left, "renyi"), (right, "gdp")):
            bars = next(bars for bars in panel.containers if bars.get_label() == label)
            some = table[table["accounting"] == accounting]
            np.testing.assert_allclose(bars[0].get_xydata(), some[["epsilon", "mean"]])


@pytest.mark.parametrize("study", ["depth", "mnist"])
def test_scores_are_compared_with_the_model_before_and_a_constant(study, reproduced, drawn):
    table = reproduced.store.read(f"{study}_references").set_index("name")["value"]
    panels = drawn(script("render", "privacy_utility").render, reproduced.store, study)[0]
    for panel in panels:
        flat = [line.get_ydata() for line in panel.lines if len(line.get_ydata()) == 2]
        levels = [y[0] for y in flat if y[0] == y[1]]
        for value in table:
            assert np.any(np.isclose(levels, 1 - value if study == "mnist" else value))


def test_one_level_for_all_is_drawn_over_epsilon(reproduced, drawn):
    table = reproduced.store.read("depth_uniform")
    (left, right), _ = drawn(script("render", "noise").render, reproduced.store, "depth")
    for panel, accountant in ((left, "theorem"), (right, "exact")):
        line = next(line for line in panel.lines if line.get_label() == "one level for all rows")
        some = table[table["accountant"] == accountant]
        np.testing.assert_allclose(line.get_xydata(), some[["epsilon", "noise"]])


def test_a_curve_that_ends_is_crossed_out_where_it_ends():
    """No noise at all is nowhere on a logarithmic axis."""
    _, panel = plt.subplots()
    some = pd.DataFrame({"epsilon": [1.0, 2.0, 4.0], "noise": [3.0, 1.0, 0.0]})
    draw_noise(panel, some, {"color": "black", "marker": "o"}, "a row", "epsilon")
    curve, cross = panel.lines
    np.testing.assert_allclose(curve.get_xydata(), [[1, 3], [2, 1]])
    np.testing.assert_allclose(cross.get_xydata(), [[2, 1]])
    plt.close()


def test_panels_of_one_scale_and_panels_of_their_own(reproduced, drawn):
    """Depth's exact errors are close together: a common scale would hide them."""
    for study, own in (("depth", True), ("mnist", False)):
        (panels,) = drawn(script("render", "unlearning_steps").render, reproduced.store, study)
        table = reproduced.store.read(f"{study}_unlearning_steps")
        assert (panels[0].get_ylim() != panels[1].get_ylim()) == own
        assert panels[2].get_ylim() == panels[3].get_ylim()
        for panel, accountant in zip(panels[:2], ("theorem", "exact"), strict=True):
            means = table["mean"][table["accountant"] == accountant]
            means = means if study == "depth" else 1 - means
            low, high = panel.get_ylim()
            assert low <= means.min() <= means.max() <= high


def test_newton_is_drawn_in_both_panels(reproduced, drawn):
    table = reproduced.store.read("mnist_newton")
    ((left, right),) = drawn(script("render", "newton").render, reproduced.store, "mnist")
    for panel, accountant in ((left, "theorem"), (right, "exact")):
        found = {line.get_label(): line.get_xydata() for line in panel.lines}
        proved = table[table["method"] == "newton, proved"]
        np.testing.assert_allclose(
            found["Newton step, proved"], proved[["learning_steps", "epsilon"]], rtol=1e-12
        )
        for row, label in curves.labels(reproduced.store, "mnist").items():
            some = table[(table["method"] == accountant) & (table["row"] == row)]
            np.testing.assert_allclose(found[label], some[["learning_steps", "epsilon"]])


def test_panels_of_batch_sizes_say_their_steps(reproduced, drawn):
    costs = reproduced.store.read("depth_cost").set_index("batch_size")["learning_steps"]
    (panels,) = drawn(script("render", "minibatches").render, reproduced.store, "depth")
    titles = [panel.get_title() for panel in panels[:3]]
    assert titles == [*(f"b = {b}, T = {costs[b]:,}" for b in (32, 50)), "all rows, T = 12"]
    full = reproduced.store.read("depth_privacy_utility")
    full = full[(full["set"] == "three") & (full["accountant"] == "theorem")]
    shown = [bars[0].get_xydata() for bars in panels[2].containers]
    for (_, some), points in zip(full.groupby("row", sort=False), shown, strict=False):
        np.testing.assert_allclose(points, some[["epsilon", "mean"]])


def test_accuracies_are_drawn_as_errors(reproduced, drawn):
    """Small differences near 1 would hide on an axis of accuracies."""
    ((left, right),) = drawn(script("render", "privacy_utility").render, reproduced.store, "mnist")
    assert left.get_ylim() == right.get_ylim()
    assert left.get_yscale() == "log"
    assert left.get_ylabel() == "test error (share of digits)"
    table = reproduced.store.read("mnist_privacy_utility")
    first = table[(table["row"] == table["row"].iloc[0]) & (table["accountant"] == "theorem")]
    np.testing.assert_allclose(with_marks(left)[0][0].get_xydata()[:, 1], 1 - first["mean"])


def test_digits_are_shown_with_what_they_are(reproduced, drawn):
    (panels,) = drawn(rows.render, reproduced.store, "mnist")
    table = reproduced.store.read("mnist_rows")
    pixels = reproduced.store.read("mnist_pixels").set_index("row")
    for panel, line in zip(panels, table.itertuples(), strict=True):
        shown = panel.images[0].get_array()
        np.testing.assert_array_equal(np.ravel(shown), pixels.loc[line.row])
        assert panel.get_xlabel() == f"a {line.true}, seen as {line.predicted}"


def test_maps_and_boxes_are_at_the_rows_places(reproduced, drawn):
    scene, patches = drawn(rows.render, reproduced.store, "depth")
    size, table = 50, reproduced.store.read("depth_rows")
    predicted = reproduced.store.read("depth_map").to_numpy()
    shown = next(panel for panel in scene if "predicted" in panel.get_title()).images[0]
    np.testing.assert_array_equal(np.ma.filled(shown.get_array(), np.nan), predicted)
    for line in table[table["set"] == "three"].itertuples():
        i, j = line.image_row // size, line.image_column // size
        assert predicted[i, j] == pytest.approx(line.predicted, abs=1e-3)
    for panel, line in zip(patches[3:6], table.itertuples(), strict=False):  # their true depth
        box = panel.patches[0].get_bbox()
        j, i = line.image_column // size, line.image_row // size
        assert box.x0 == pytest.approx(size * j, abs=0.5)
        assert box.y0 == pytest.approx(size * i, abs=0.5)


def test_a_cell_of_a_map_covers_the_pixels_of_its_patch(reproduced, drawn):
    scene, _ = drawn(rows.render, reproduced.store, "depth")
    for panel in scene[1:4]:
        height, width = panel.images[0].get_array().shape
        assert panel.images[0].get_extent() == [0, 50 * width, 50 * height, 0]


def test_a_row_has_its_colour_and_marker_wherever_it_is_drawn():
    styles = row_styles([7, 3, 5])
    assert list(styles) == [7, 3, 5]
    assert len({style["marker"] for style in styles.values()}) == 3
    lightness = [np.dot(colour[:3], (0.299, 0.587, 0.114)) for colour in colours(8)]
    assert (np.diff(lightness) < 0).all()
    assert lightness[0] < 0.9  # to be seen on white


def test_settings_stay_within_the_figure(tmp_path):
    before = matplotlib.rcParams["font.size"]
    with figure(tmp_path / "new", "empty", 1, 1) as axes:
        assert axes.shape == (1, 1)
        assert matplotlib.rcParams["font.size"] == 8
    assert matplotlib.rcParams["font.size"] == before
    with Image.open(tmp_path / "new" / "empty.png") as image:
        assert image.width == pytest.approx(144 * COLUMN, abs=1)
