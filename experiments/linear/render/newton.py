"""epsilon against T, pilu (K = 1, all noises 0.1) and the Newton step; the table of residuals.

python -m experiments.linear.render.newton --study depth --size full
"""

from pathlib import Path

from experiments.linear.command import render_script
from experiments.linear.render.curves import LEGEND, draw_panels, labels
from experiments.store import Store
from experiments.style import GREY, figure, legend_below, plain_log_axis

CURVES = (
    ("newton", GREY, "Newton step, as in the paper (not proved)"),
    ("newton, proved", "black", "Newton step, proved"),
)


def render(store: Store, study: str, folder: Path) -> None:
    table, names = store.read(f"{study}_newton"), labels(store, study)
    pilu = table.rename(columns={"method": "accountant"})
    with figure(folder, f"{study}_newton", 1, 2, sharey=True, height=3.6) as axes:
        draw_panels(axes[0], pilu, names, "learning_steps", _epsilon)
        for panel in axes[0]:
            for method, colour, label in CURVES:
                some = table[table["method"] == method]
                panel.plot(some["learning_steps"], some["epsilon"], "--", color=colour, label=label)
            panel.axhline(1, color=GREY, linewidth=0.8, linestyle=":", label="epsilon = 1")
            panel.set(xscale="log", yscale="log", xlabel="learning steps T")
            plain_log_axis(panel.xaxis)
        axes[0, 0].set_ylabel("epsilon at delta = 1/n")
        legend_below(axes[0, 0], LEGEND)
    residuals = store.read(f"{study}_residuals")
    print(f"\n{study}: gradient residual after the Newton step")
    print(residuals.to_string(index=False, float_format="{:.6g}".format))


def _epsilon(panel, some, style, label) -> None:
    panel.plot(some["learning_steps"], some["epsilon"], label=label, **style)


if __name__ == "__main__":
    render_script(__doc__, render)
