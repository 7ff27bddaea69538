"""The effect of T at epsilon = 1.

python -m experiments.linear.render.learning_steps --study depth --size full
"""

from pathlib import Path

from experiments.linear.command import render_script
from experiments.linear.render.horizon import render_horizon
from experiments.store import Store


def render(store: Store, study: str, folder: Path) -> None:
    label = "learning steps T"
    render_horizon(store, study, folder, "learning_steps", label)


if __name__ == "__main__":
    render_script(__doc__, render)
