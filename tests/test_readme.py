"""Examples of the README and of some pages run as they stand, one after the other."""

import re
import tomllib
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
DOCS = README.parent / "docs"


def test_the_example_of_the_readme_runs(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    names: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), names)
    assert names["certificate"].rows == (42, 43)
    assert names["certificate"].epsilon == 0.1
    assert "'parameters_checked': True" in capsys.readouterr().out


def test_examples_of_the_tour_run():
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "tour.md").read_text(), re.S)
    assert len(blocks) == 11
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "tour.md", "exec"), names)
        if "checks" not in names and "verify(certificate, model" in block:
            names["checks"] = names["pilu"].verify(names["certificate"], names["model"])
    assert names["checks"]["parameters_checked"]
    assert names["certificate"].epsilon <= 1.0


def test_targets_and_extras_of_the_tour_exist():
    tour, makefile = (DOCS / "tour.md").read_text(), (README.parent / "Makefile").read_text()
    targets = set(re.findall(r"`make ([\w-]+)`", tour + README.read_text()))
    assert {"demo", "test", "bench"} <= targets
    assert targets <= set(re.findall(r"^([\w-]+):", makefile, re.M))
    project = tomllib.loads((README.parent / "pyproject.toml").read_text())["project"]
    table = tour.split("| extra |", 1)[1].split("\n\n", 1)[0]
    named = re.findall(r"`([\w-]+)`", " ".join(re.findall(r"^\| (`[^|]*) \|", table, re.M)))
    assert len(named) > 10
    assert set(named) <= set(project["optional-dependencies"])


def test_examples_on_sizes_run():
    (block,) = re.findall(
        r"```python\n(.*?)```", (README.parent / "docs" / "sizes.md").read_text(), re.S
    )
    names: dict[str, object] = {}
    exec(compile(block, "sizes.md", "exec"), names)
    assert len(names["costs"]) == 400
    assert names["certificate"].rows == (42,)


def test_a_loss_of_ones_own():
    text = (README.parent / "docs" / "losses.md").read_text()
    block, shown = re.findall(r"```python\n(.*?)```", text, re.S)
    loss = block[block.index("@dataclass") : block.index("rng =")]
    assert loss.count("\n") < 40
    names: dict[str, object] = {"__name__": "losses_page"}
    exec(compile(block, "losses.md", "exec"), names)
    certificate = names["certificate"]
    assert certificate.epsilon <= 1.0
    assert certificate.accountant["loss"]["name"] == "squared hinge"
    exec(compile(shown, "losses.md", "exec"), {})


def test_commands_are_named():
    text = README.read_text()
    assert "make demo" in text
    assert "make test" in text


def test_the_desk_in_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(
        r"```python\n(.*?)```", (README.parent / "docs" / "desk.md").read_text(), re.S
    )
    names: dict[str, object] = {}
    exec(compile(block.replace("mkdtemp()", f"{str(tmp_path)!r}"), "desk.md", "exec"), names)
    assert names["outcome"].certificate.method == "refit"
    assert (tmp_path / "model.skops").stat().st_size > 1_000
    assert "<html" in (tmp_path / "report.html").read_text()
