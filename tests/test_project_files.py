"""Files for hosts and readers of the repository: fragments, workflows, forms, citation."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def targets():
    (line,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)
    return set(line.split())


def test_fragments_are_named_and_written_as_towncrier_reads_them():
    kinds = [kind["directory"] for kind in PROJECT["tool"]["towncrier"]["type"]]
    folder = ROOT / PROJECT["tool"]["towncrier"]["directory"]
    assert kinds == ["added", "changed", "fixed"]
    for path in folder.iterdir():
        if path.name == ".gitkeep":
            continue
        assert re.fullmatch(rf"\+[a-z0-9-]+\.({'|'.join(kinds)})\.md", path.name), path.name
        lines = path.read_text().splitlines()
        assert 1 <= len(lines) <= 4, path.name
        assert all(line.strip() and len(line) <= 110 for line in lines), path.name
        assert not lines[0].startswith(("-", "#", "*")), path.name  # towncrier adds these


def test_the_changelog_has_the_line_that_new_sections_go_under():
    start = PROJECT["tool"]["towncrier"]["start_string"]
    assert (ROOT / PROJECT["tool"]["towncrier"]["filename"]).read_text().startswith(start)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_few_rights_and_call_what_exists(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert "timeout-minutes" in job
        assert job.get("permissions") in (None, {"id-token": "write"})
        assert ("permissions" in job) == (name == "publish")
        for step in job["steps"]:
            used = step.get("uses", "a@v1")
            assert re.fullmatch(r"[\w/-]+@(v\d+|release/v\d+)", used), used
            if used.startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
            assert "secrets." not in str(step)
            for script in re.findall(r"python (\S+\.py)", step.get("run", "")):
                assert (ROOT / script).is_file(), script
            for target in re.findall(r"make ([a-z][\w-]*)", step.get("run", "")):
                if not target.endswith("-"):  # the rest comes from the matrix, see below
                    assert target in targets(), target


def test_matrices_name_targets_and_pythons_that_exist():
    (tests,) = [yaml.safe_load(one.read_text()) for one in WORKFLOWS if one.name == "test.yml"]
    (night,) = [yaml.safe_load(one.read_text()) for one in WORKFLOWS if one.name == "nightly.yml"]
    assert set(night["jobs"]["nightly"]["strategy"]["matrix"]["target"]) <= targets()
    for one in tests["jobs"]["debian"]["strategy"]["matrix"]["include"]:
        assert f"test-{one['target']}" in targets()
    stated = [
        line.rpartition(" :: ")[2]
        for line in PROJECT["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", line)
    ]
    assert tests["jobs"]["test"]["strategy"]["matrix"]["python"] == stated
    assert PROJECT["project"]["requires-python"] == f">={stated[0]}"


@pytest.mark.parametrize("path", [*ROOT.glob(".github/**/*.md")], ids=lambda path: path.name)
def test_forms_have_what_the_host_reads(path):
    text = path.read_text()
    if path.parent.name == "ISSUE_TEMPLATE":
        head = yaml.safe_load(text.split("---\n")[1])
        assert {"name", "about"} <= set(head)
    for link in re.findall(r"blob/HEAD/([\w.]+)", text):
        assert (ROOT / link).is_file()


def test_the_citation_names_the_paper_and_the_licence():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["license"] == PROJECT["project"]["license"]
    assert citation["preferred-citation"]["url"] == PROJECT["project"]["urls"]["Paper"]
    assert "version" not in citation  # it comes from the tag


def test_commits_are_checked_by_the_linter_of_the_project():
    """No second version of ruff that could differ: the hook calls `make lint`."""
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    assert [hook["entry"] for hook in hooks] == ["make lint"]
    assert "lint" in targets()
