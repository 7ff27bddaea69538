"""Tables, what they came from, and when they are computed again."""

import json
import platform
import re
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from experiments.linear import command
from experiments.linear.config import EPSILONS, SEVEN, STUDIES, DepthData, MnistData
from experiments.linear.figures import PICTURES, TABLES, of_study, script
from experiments.store import STORES, Store

from experiments import store as store_module

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
STORED = sorted(path.stem for path in RESULTS.glob("*.csv"))
LINEAR = [name for name in STORED if name.split("_")[0] in ("depth", "mnist")]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "new")


FRAME = pd.DataFrame({"row": [3, 1], "value": [1 / 3, np.nan]})


# Store


def test_a_table_comes_back_with_its_provenance(store):
    store.write("some", FRAME, {"config": {"T": (1, 2)}, "seed": 4})
    found = store.read("some")
    assert list(found["row"]) == [3, 1]
    assert found["value"][0] == pytest.approx(1 / 3, rel=1e-5)
    assert np.isnan(found["value"][1])
    told = store.provenance("some")
    assert told["config"] == {"T": [1, 2]}
    assert told["seed"] == 4
    assert told["versions"]["numpy"] == np.__version__
    assert told["versions"]["pilu"] == version("pilu")
    assert told["versions"]["python"] == platform.python_version()
    assert set(told["versions"]) == {"pilu", "numpy", "scipy", "scikit-learn", "torch", "python"}
    assert told["machine"]["processor"]
    assert told["machine"]["cores"] >= 1


def test_a_table_is_there_if_its_settings_are_the_same(store):
    config = {"T": (1, 2), "data": {"patch": 3}}
    assert not store.has("some", config)
    store.write("some", FRAME, {"config": config})
    assert store.has("some", config)
    assert not store.has("some", config | {"T": (1, 3)})
    assert not store.has("other", config)


def test_a_table_that_was_not_written_to_its_end_is_not_there(store):
    """Provenance goes first and comes last."""
    config = {"T": 1}
    store.write("some", FRAME, {"config": config})

    class Torn(pd.DataFrame):
        def to_csv(self, *given, **options):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.write("some", Torn(FRAME), {"config": config})
    assert not store.has("some", config)


def test_a_table_whose_numbers_are_gone_is_not_there(store):
    store.write("some", FRAME, {"config": {}})
    (store.folder / "some.csv").unlink()
    assert not store.has("some", {})


def test_a_missing_table_says_how_to_make_it(store):
    with pytest.raises(SystemExit) as stopped:
        store.read("depth_rows")
    message = str(stopped.value)
    assert "no depth_rows.csv" in message
    assert str(store.folder) in message
    assert {"make reproduce-full", "make figures", "make reproduce"} <= set(
        re.findall("`(.*?)`", message)
    )


def test_what_a_missing_table_asks_to_make_can_be_made(store):
    with pytest.raises(SystemExit) as stopped:
        store.read("depth_rows")
    targets = re.findall("`make (.*?)`", str(stopped.value))
    rules = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert targets
    assert set(targets) <= set(rules)


def test_a_machine_that_does_not_tell_its_processor(monkeypatch, tmp_path):
    monkeypatch.setattr(store_module, "Path", lambda name: tmp_path / "nothing")
    assert store_module.processor() == (platform.processor() or platform.machine())


# Computing tables


@pytest.fixture
def computed(monkeypatch, store, depth):
    """Run `run_compute` on a toy; counts how often it is computed, and in which order written."""
    calls, written = [], []
    monkeypatch.setitem(STUDIES, "toy", {"depth": depth.study})
    monkeypatch.setitem(STORES, "toy", store)
    monkeypatch.setattr(command, "engine", lambda study, size: depth)
    write = Store.write

    def watched(self, name, *given):
        written.append(name)
        write(self, name, *given)

    monkeypatch.setattr(Store, "write", watched)

    def compute(engine):
        calls.append(engine)
        return {"made": FRAME, "aside": FRAME, "other": FRAME}

    def run(**options):
        command.run_compute("made", compute, "depth", "toy", **options)
        return len(calls), written

    return run


def test_the_table_that_says_it_is_done_is_written_last(computed, store):
    _, written = computed()
    assert sorted(written) == ["depth_aside", "depth_made", "depth_other"]
    assert written[-1] == "depth_made"


def test_a_table_is_computed_once(computed, capsys):
    assert computed()[0] == 1
    assert computed()[0] == 1
    assert "is there already" in capsys.readouterr().out
    assert computed(again=True)[0] == 2


def test_other_settings_are_computed_again(computed, depth, monkeypatch):
    assert computed()[0] == 1
    monkeypatch.setitem(STUDIES, "toy", {"depth": replace(depth.study, n_runs=5)})
    assert computed()[0] == 2


def test_a_computation_that_stops_halfway_is_taken_up_again(computed, monkeypatch):
    with monkeypatch.context() as patch:
        write = Store.write

        def torn(self, name, *given):
            if name == "depth_made":
                raise KeyboardInterrupt
            write(self, name, *given)

        patch.setattr(Store, "write", torn)
        with pytest.raises(KeyboardInterrupt):
            computed()
    assert computed()[0] == 2


def test_provenance_tells_settings_data_seed_and_time(computed, store, depth):
    computed()
    told = store.provenance("depth_made")
    assert told["config"] == json.loads(json.dumps(asdict(depth.study)))
    assert told["seed"] == depth.study.seed
    assert told["data"]["sha256"] == depth.data.provenance["sha256"]
    assert told["data"]["rows"]["train"] == 121
    assert told["delta"] == 1 / 121
    largest = np.linalg.norm(depth.data.X, 2) ** 2
    assert told["step_size"] == pytest.approx(1 / (largest + depth.study.alpha))
    assert told["seconds"] >= 0
    assert store.provenance("depth_aside")["config"] == told["config"]


def test_scripts_take_their_study_from_the_command_line(computed, store, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["made", "--study", "depth", "--size", "toy"])
    command.compute_script("doc", "made", lambda engine: {"made": FRAME})
    assert store.has("depth_made", STUDIES["toy"]["depth"].describe())
    drawn = []
    monkeypatch.setitem(store_module.FIGURES, "toy", store.folder)
    command.render_script("doc", lambda *given: drawn.append(given))
    assert drawn == [(store, "depth", store.folder)]
    monkeypatch.setattr("sys.argv", ["made", "--study", "unknown"])
    with pytest.raises(SystemExit):
        command.compute_script("doc", "made", lambda engine: {"made": FRAME})
    assert "unknown" in capsys.readouterr().err


@pytest.mark.parametrize("part", ["compute", "render"])
def test_every_script_can_be_called(part):
    for name in TABLES if part == "compute" else PICTURES:
        module = script(part, name)
        assert callable(getattr(module, part))
        assert f"python -m experiments.linear.{part}.{name} " in module.__doc__
    scripts = {path.stem for path in (ROOT / "experiments" / "linear" / part).glob("*.py")}
    shared = {"__init__", "horizons", "curves", "horizon"}
    assert scripts - shared == set(TABLES if part == "compute" else PICTURES)


def test_mini_batches_and_the_other_scene_are_of_depth_only():
    assert "minibatches" in of_study(TABLES, "depth")
    assert "minibatches" not in of_study(TABLES, "mnist")
    only_depth = set(of_study(TABLES, "depth")) - set(of_study(TABLES, "mnist"))
    assert only_depth == {"minibatches", "other_scene"}


# What is run, and what is stored


def test_what_the_paper_says_is_what_is_run_for_depth():
    study = STUDIES["full"]["depth"]
    assert (study.alpha, study.noise) == (1e-4, 0.01)
    assert (study.n_steps, study.n_unlearn_steps) == (800, 80)
    five = study.row_sets[study.main_rows]
    assert five.quantiles == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert five.share == 0.92
    assert len(study.row_sets["seven"].quantiles) == 7
    assert study.row_sets["seven"].share == 1.0
    assert study.n_runs == 20
    assert len(set(study.epsilons)) == 10
    assert study.batch_sizes == (256, 512, 1024, 2048)
    assert study.newton_steps == (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
    assert study.newton_noise == 0.1
    assert study.batch_accountants == ("theorem", "exact")
    assert study.n_steps in study.learn_steps
    assert study.n_unlearn_steps in study.unlearn_steps
    assert study.data == DepthData(every=1)


def test_what_the_paper_says_is_what_is_run_for_mnist():
    study = STUDIES["full"]["mnist"]
    assert (study.alpha, study.noise) == (1e-4, 0.01)
    assert (study.n_steps, study.n_unlearn_steps) == (300, 20)
    assert study.data == MnistData(4000, 6000, 1000, image_size=224, every=1)
    assert study.row_sets[study.main_rows].quantiles == (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
    assert study.row_sets[study.main_rows].share == 1.0
    assert (study.n_runs, len(study.epsilons)) == (20, 10)
    assert study.n_steps in study.learn_steps
    assert study.n_unlearn_steps in study.unlearn_steps


def test_a_quick_study_differs_in_size_only():
    same = ("alpha", "noise", "row_sets", "seed", "newton_noise", "newton_steps")
    for name, full in STUDIES["full"].items():
        quick = STUDIES["quick"][name]
        assert quick.size == "quick"
        assert all(getattr(quick, field) == getattr(full, field) for field in same)
        for field in ("epsilons", "batch_sizes"):
            assert set(getattr(quick, field)) <= set(getattr(full, field))
        # the claims about horizons are read at the study's own
        assert quick.n_steps in quick.learn_steps
        assert quick.n_unlearn_steps in quick.unlearn_steps
    assert tuple(sorted(SEVEN)) == SEVEN
    assert tuple(sorted(EPSILONS)) == EPSILONS


def test_the_main_tables_are_stored():
    assert {"depth_rows", "depth_privacy_utility"} <= set(STORED)
    assert STORES["full"].folder == RESULTS


@pytest.mark.parametrize("name", STORED)
def test_a_stored_table_tells_where_it_comes_from(name):
    told = json.loads((RESULTS / f"{name}.json").read_text())
    assert {"config", "versions", "machine"} <= set(told)
    assert {"pilu", "numpy", "python"} <= set(told["versions"])
    assert told["machine"]["cores"] >= 1
    assert len(STORES["full"].read(name)) > 0


@pytest.mark.parametrize("name", LINEAR)
def test_a_stored_table_was_computed_by_the_settings_of_today(name):
    study = STUDIES["full"][name.split("_")[0]]
    told = json.loads((RESULTS / f"{name}.json").read_text())
    assert told["config"] == json.loads(json.dumps(asdict(study)))
    assert STORES["full"].has(name, study.describe())
    assert re.fullmatch("[0-9a-f]{64}", told["data"]["sha256"])
    assert told["delta"] == 1 / told["data"]["rows"]["train"]
    assert told["seed"] == study.seed


def test_tables_of_a_study_are_of_the_same_data():
    """Images, weights and patches to the byte; their features agree but for the last digits.

    The tables come from several machines, on which single precision rounds differently. The step
    size, one over the largest eigenvalue of the features, would show any other difference.
    """
    for study in ("depth", "mnist"):
        told = [
            json.loads((RESULTS / f"{name}.json").read_text())
            for name in LINEAR
            if name.startswith(f"{study}_")
        ]
        origins = [
            {k: v for k, v in one["data"]["features"].items() if k != "versions"} for one in told
        ]
        assert all(origin == origins[0] for origin in origins)
        assert all(one["data"]["rows"] == told[0]["data"]["rows"] for one in told)
        assert all(one["data"]["rows"]["train"] == 4000 for one in told if study == "mnist")
        steps = [one["step_size"] for one in told]
        assert max(steps) / min(steps) < 1 + 1e-7


def test_results_are_small():
    files = list(RESULTS.iterdir())
    assert files
    for path in files:
        assert path.suffix in (".csv", ".json")
        assert path.stat().st_size < 2**20, path.name
        assert path.with_suffix(".csv").exists()


@pytest.mark.parametrize("name", [name for name in LINEAR if name.endswith("privacy_utility")])
def test_the_stored_sweep_is_complete(name):
    """Every row, accountant and epsilon once, and runs where they are expected."""
    study, table = STUDIES["full"][name.split("_")[0]], STORES["full"].read(name)
    rows = STORES["full"].read(f"{study.name}_rows")
    for kind, wanted in study.row_sets.items():
        some = table[table["set"] == kind]
        places = some.set_index(["row", "accountant", "epsilon"]).index
        assert places.is_unique
        assert len(places) == len(wanted.quantiles) * 2 * len(study.epsilons)
        assert set(some["row"]) == set(rows[rows["set"] == kind]["row"])
    assert set(table["epsilon"]) == set(study.epsilons)
    assert (table["runs"] == 20).all()
    noisy = table[table["sd"] > 0]
    seen = noisy["mean" if study.name == "mnist" else "root_mean_square"]
    apart = (seen - noisy["expected"]) / (noisy["sd"] / np.sqrt(20))
    assert abs(apart).max() < 7  # a t-variable of 19 degrees, some hundred times
    assert abs(apart.mean()) < 0.5


@pytest.mark.parametrize("name", [name for name in LINEAR if name.endswith("sensitivities")])
def test_stored_runs_are_below_their_bounds(name):
    table = STORES["full"].read(name)
    runs = table.filter(regex="^run[0-9]+$")
    assert runs.shape[1] == 20
    later = table["step"] > 0  # the first is fixed: there the bound is the sensitivity itself
    assert (runs[later].max(axis=1) <= table[later]["bound"]).all()
    margins = STORES["full"].read(f"{name.split('_')[0]}_margins")
    assert (margins["exceeded"] == 0).all()
