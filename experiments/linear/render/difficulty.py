"""Noise of rows drawn at random against their gradient norm: does the one tell the other?

python -m experiments.linear.render.difficulty --study depth --size full
"""

from pathlib import Path

from experiments.linear.command import render_script
from experiments.store import Store
from experiments.style import BLUE, TITLES, figure, plain_log_axis


def render(store: Store, study: str, folder: Path) -> None:
    table = store.read(f"{study}_difficulty")
    with figure(folder, f"{study}_difficulty", 1, 2, sharey=True, height=2.6) as axes:
        for panel, (accountant, title) in zip(axes[0], TITLES.items(), strict=True):
            some = table[table[accountant] > 1e-6]
            panel.scatter(some["gradient_norm"], some[accountant], s=5, color=BLUE, alpha=0.6)
            relation = table["gradient_norm"].corr(table[accountant], method="spearman")
            panel.set(xscale="log", yscale="log", xlabel="|gradient| after learning")
            for axis in (panel.xaxis, panel.yaxis):
                plain_log_axis(axis)
            panel.set_title(f"{title}: rank correlation {relation:.2f}")
        axes[0, 0].set_ylabel("sigma_unlearn at epsilon = 1")


if __name__ == "__main__":
    render_script(__doc__, render)
