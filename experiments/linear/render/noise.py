"""Calibrated noise against epsilon, by row and accountant: linear above, log-log below.

python -m experiments.linear.render.noise --study depth --size full
"""

from pathlib import Path

from experiments.linear.command import render_script
from experiments.linear.render.curves import LEGEND, draw_panels, labels
from experiments.store import Store
from experiments.style import figure, legend_below


def render(store: Store, study: str, folder: Path) -> None:
    table = store.read(f"{study}_privacy_utility")
    for number, kind in enumerate(dict.fromkeys(table["set"])):
        some, names = table[table["set"] == kind], labels(store, study, kind)
        suffix = "" if number == 0 else f"_{kind}"
        with figure(folder, f"{study}_noise{suffix}", 2, 2) as axes:
            for panels, scale in zip(axes, ("linear", "log"), strict=True):
                # No noise at all is nowhere on a logarithmic axis.
                shown = some if scale == "linear" else some[some["noise"] > 1e-6]
                draw_panels(panels, shown, names, "epsilon", _noise)
                for panel in panels:
                    panel.set(xscale=scale, yscale=scale, xlabel="epsilon")
                panels[0].set_ylabel("sigma_unlearn")
            for panel in axes[1]:
                panel.set_ylim(axes[1, 1].get_ylim()[0], axes[1, 0].get_ylim()[1])
            legend_below(axes[0, 0], LEGEND)


def _noise(panel, some, style, label) -> None:
    panel.plot(some["epsilon"], some["noise"], label=label, **style)


if __name__ == "__main__":
    render_script(__doc__, render)
