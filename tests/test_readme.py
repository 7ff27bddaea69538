"""Examples of the README and of docs/sizes.md run as they stand, one after the other."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_examples_run():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    assert len(blocks) == 7
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert names["certificate"].epsilon <= 1.0


def test_examples_on_sizes_run():
    (block,) = re.findall(
        r"```python\n(.*?)```", (README.parent / "docs" / "sizes.md").read_text(), re.S
    )
    names: dict[str, object] = {}
    exec(compile(block, "sizes.md", "exec"), names)
    assert len(names["costs"]) == 400
    assert names["certificate"].rows == (42,)


def test_commands_are_named():
    text = README.read_text()
    assert "make demo" in text
    assert "make test" in text
