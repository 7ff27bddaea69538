"""What the pictures of both ablations share: score above, noise below."""

from pathlib import Path

from experiments.linear.render.curves import (
    LEGEND,
    SCORES,
    draw_panels,
    labels,
    runs_and_expectation,
    scale_scores,
)
from experiments.store import Store
from experiments.style import figure, legend_below


def render_horizon(store: Store, study: str, folder: Path, name: str, x: str, label: str) -> None:
    table, names = store.read(f"{study}_{name}"), labels(store, study)
    with figure(folder, f"{study}_{name}", 2, 2, sharex=True, height=4.4) as axes:
        for panel in axes[0]:
            panel.sharey(axes[0, 0])
        draw_panels(axes[0], table, names, x, runs_and_expectation(x))
        scale_scores(axes[0], study)
        shown = table[table["noise"] > 1e-6]
        draw_panels(axes[1], shown, names, x, lambda p, s, style, label: _noise(p, s, style, x))
        for panel in axes[1]:
            panel.set(xscale="log", yscale="log", xlabel=label, title="")
        low, high = shown["noise"].min(), shown["noise"].max()
        for panel in axes[1]:
            panel.set_ylim(low / 1.5, high * 1.5)
        axes[0, 0].set_ylabel(SCORES[study])
        axes[1, 0].set_ylabel("sigma_unlearn")
        legend_below(axes[0, 0], LEGEND)


def _noise(panel, some, style, x) -> None:
    panel.plot(some[x], some["noise"], **style)
