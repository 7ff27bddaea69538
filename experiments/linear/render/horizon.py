"""What the pictures of both ablations share: score above, noise below."""

from pathlib import Path

from experiments.linear.render.curves import (
    LEGEND,
    NOTHING,
    OWN_SCALES,
    compare_with,
    draw_panels,
    few_ticks,
    labels,
    n_runs,
    runs_and_expectation,
    say_what_is_drawn,
    scale_scores,
)
from experiments.linear.render.curves import SCORES as SCORE_NAMES
from experiments.linear.render.noise import explain_ends, noise
from experiments.store import Store
from experiments.style import figure, legend_below, plain_log_axis


def render_horizon(store: Store, study: str, folder: Path, x: str, label: str) -> None:
    """The table of the ablation over x: `unlearning_steps` or `learning_steps`."""
    table, names = store.read(f"{study}_{x}"), labels(store, study)
    with figure(folder, f"{study}_{x}", 2, 2, sharex=True, height=5.2) as axes:
        axes[1, 1].sharey(axes[1, 0])
        if study not in OWN_SCALES:
            axes[0, 1].sharey(axes[0, 0])
        draw_panels(axes[0], table, names, x, runs_and_expectation(x, study))
        limits = axes[0, 1].get_ylim()  # the constant would flatten all curves
        compare_with(axes[0], store, study)
        scale_scores(axes[0], study)
        if study in OWN_SCALES:
            axes[0, 1].set_ylim(limits)
            few_ticks(axes[0, 1].yaxis)
        for panel in axes[1]:
            panel.set(xscale="log", yscale="log", xlabel=label)
        draw_panels(axes[1], table, names, x, lambda *given: noise(*given, x))
        needed = table["noise"][table["noise"] > NOTHING]
        for panel in axes[1]:
            panel.set(title="", ylim=(needed.min() / 1.5, needed.max() * 1.5))
            plain_log_axis(panel.xaxis)
        axes[0, 0].set_ylabel(SCORE_NAMES[study])
        axes[1, 0].set_ylabel("sigma_unlearn")
        say_what_is_drawn(axes[0, 0], n_runs(store, study))
        explain_ends(axes[0, 0], table)
        legend_below(axes[0, 0], LEGEND)
