"""The effect of K at epsilon = 1.

python -m experiments.linear.render.unlearning_steps --study depth --size full
"""

from pathlib import Path

from experiments.linear.command import render_script
from experiments.linear.render.horizon import render_horizon
from experiments.store import Store


def render(store: Store, study: str, folder: Path) -> None:
    label = "unlearning steps K"
    render_horizon(store, study, folder, "unlearning_steps", label)


if __name__ == "__main__":
    render_script(__doc__, render)
