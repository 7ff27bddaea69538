"""Sensitivities of runs along the learning trajectory (thin) under their bounds (dashed).

python -m experiments.linear.render.sensitivities --study depth --size full
"""

from pathlib import Path

from experiments.linear.command import render_script
from experiments.linear.render.curves import LEGEND, labels
from experiments.store import Store
from experiments.style import COLUMN, figure, legend_below, row_styles


def render(store: Store, study: str, folder: Path) -> None:
    table, names = store.read(f"{study}_sensitivities"), labels(store, study)
    styles = row_styles(list(names))
    runs = [column for column in table if column.startswith("run")]
    options = {"width": 1.4 * COLUMN, "height": 2.9}
    with figure(folder, f"{study}_sensitivities", 1, 1, **options) as axes:
        panel = axes[0, 0]
        for row, label in names.items():
            some, colour = table[table["row"] == row], styles[row]["color"]
            steps = some["step"] + 1
            for run in runs:
                panel.plot(steps, some[run], color=colour, linewidth=0.3, alpha=0.5)
            panel.plot(steps, some["bound"], color=colour, linestyle="--", label=label)
        panel.set(xscale="log", yscale="log", xlabel="learning step k + 1")
        panel.set_ylabel("sensitivity at step k")
        lowest = table[runs].to_numpy()
        panel.set_ylim(bottom=max(0.8 * lowest[lowest > 0].min(), table["bound"].min() / 1e3))
        legend_below(panel, f"bounds (dashed), {LEGEND}")


if __name__ == "__main__":
    render_script(__doc__, render)
