"""pilu's curves beside the one curve of DP-GD, tuned and with the paper's threshold.

python -m experiments.linear.render.dp_gd --study depth --size full
"""

from pathlib import Path

from experiments.linear.command import render_script
from experiments.linear.config import TUNED_RUNS
from experiments.linear.render.curves import (
    as_error,
    compare_with,
    draw_panels,
    finish,
    labels,
    n_runs,
    runs_and_expectation,
)
from experiments.store import Store
from experiments.style import GREY, PINK, figure, plain_log_axis

# The paper's own accounting beside the theorem, the tight one beside the exact accountant.
BESIDE = ("renyi", "gdp")
RIVALS = {
    "dp_gd_tuned": (f"DP-GD, tuned ({TUNED_RUNS} runs)", PINK, "--"),
    "dp_gd": ("DP-GD, as in the paper", GREY, ":"),
}


def render(store: Store, study: str, folder: Path) -> None:
    table, names = store.read(f"{study}_privacy_utility"), labels(store, study)
    table = table[table["set"] == table["set"].iloc[0]]
    with figure(folder, f"{study}_dp_gd", 1, 2, sharey=True, height=3.6) as axes:
        draw_panels(axes[0], table, names, "epsilon", runs_and_expectation("epsilon", study))
        for panel, accounting in zip(axes[0], BESIDE, strict=True):
            for name, (label, colour, dashes) in RIVALS.items():
                some = store.read(f"{study}_{name}")
                some = some[some["accounting"] == accounting]
                errors = as_error(study, some["mean"])
                look = {"color": colour, "linestyle": dashes, "linewidth": 1.6}
                panel.errorbar(some["epsilon"], errors, some["sd"], **look, label=label)
            panel.set(xscale="log", xlabel="epsilon")
            plain_log_axis(panel.xaxis)
        axes[0, 0].set_title("Theorem 1 (the paper); DP-GD by Renyi accounting")
        axes[0, 1].set_title("exact; DP-GD by exact accounting")
        compare_with(axes[0], store, study)
        finish(axes[0], study, n_runs(store, study))


if __name__ == "__main__":
    render_script(__doc__, render)
