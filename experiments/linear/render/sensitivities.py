"""Sensitivities of runs along the learning trajectory (thin) under their bounds (dashed).

python -m experiments.linear.render.sensitivities --study depth --size full
"""

from pathlib import Path

from experiments.linear.command import render_script
from experiments.linear.render.curves import LEGEND, labels, n_runs
from experiments.store import Store
from experiments.style import GREY, PAGE, figure, legend_below, plain_log_axis, row_styles


def render(store: Store, study: str, folder: Path) -> None:
    table, names = store.read(f"{study}_sensitivities"), labels(store, study)
    styles = row_styles(list(names))
    runs = [column for column in table if column.startswith("run")]
    with figure(folder, f"{study}_sensitivities", 1, 1, width=PAGE, height=3.8) as axes:
        panel = axes[0, 0]
        for row, label in names.items():
            some, look = table[table["row"] == row], styles[row]
            steps = some["step"] + 1
            for run in runs:
                panel.plot(steps, some[run], color=look["color"], linewidth=0.3, alpha=0.5)
            panel.plot(steps, some["bound"], linestyle="--", markevery=8, label=label, **look)
        panel.set(xscale="log", yscale="log", xlabel="learning step k + 1")
        plain_log_axis(panel.xaxis)
        panel.set_ylabel("sensitivity at step k")
        lowest = table[runs].to_numpy()
        panel.set_ylim(bottom=max(0.8 * lowest[lowest > 0].min(), table["bound"].min() / 100))
        panel.plot([], [], color=GREY, linewidth=0.5, label=f"{n_runs(store, study)} runs")
        legend_below(panel, f"high-probability bounds (dashed), {LEGEND}")


if __name__ == "__main__":
    render_script(__doc__, render)
