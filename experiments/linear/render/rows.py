"""What the representative rows look like: patches with their depth, or digits.

python -m experiments.linear.render.rows --study depth --size full
"""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.patches import Rectangle

from experiments.linear.command import render_script
from experiments.store import Store
from experiments.style import PAGE, bare, figure
from pilu.datasets import load_motorcycle, patch_targets

RED = "#e41a1c"
WINDOW = 60  # pixels to each side of a patch


def render(store: Store, study: str, folder: Path) -> None:
    rows = store.read(f"{study}_rows")
    if study == "mnist":
        digits(rows, store.read("mnist_pixels"), folder)
        return
    patch = store.provenance("depth_rows")["config"]["data"]["patch"]
    predicted = store.read("depth_map").to_numpy()
    scene(rows, predicted, patch, folder)
    patches(rows[rows["set"] == rows["set"].iloc[0]], predicted, patch, folder)


def digits(rows: pd.DataFrame, pixels: pd.DataFrame, folder: Path) -> None:
    options = {"width": PAGE, "height": 1.7}
    with figure(folder, "mnist_rows", 1, len(rows), **options) as axes:
        for panel, line in zip(axes[0], rows.itertuples(), strict=True):
            image = pixels[pixels["row"] == line.row].drop(columns="row").to_numpy()
            panel.imshow(image.reshape(28, 28), cmap="gray_r")
            bare(panel)
            panel.set_title(f"{line.quantile:.0%}\nrow {line.row}")
            panel.set_xlabel(f"a {line.true:.0f}, seen as {line.predicted:.0f}")


def truth(patch: int) -> np.ndarray:
    """True metres of all patches, by the image's rows and columns."""
    patches = patch_targets(load_motorcycle().depth, patch)
    grid = np.full((patches.row.max() // patch + 1, patches.column.max() // patch + 1), np.nan)
    grid[patches.row // patch, patches.column // patch] = patches.depth
    return grid


def scene(rows: pd.DataFrame, predicted: np.ndarray, patch: int, folder: Path) -> None:
    """The whole image, its true and predicted depth, and the error between them."""
    image, true = load_motorcycle().images[0], truth(patch)
    low, high = np.nanmin(true), np.nanmax(true)
    with figure(folder, "depth_scene", 2, 2, height=5.0) as axes:
        axes[0, 0].imshow(image)
        axes[0, 0].set_title("image; rows to forget in red")
        for line in rows.itertuples():
            box(axes[0, 0], line, 14)
        maps = (
            (axes[0, 1], true, "true depth (m)", {"vmin": low, "vmax": high, "cmap": "viridis"}),
            (axes[1, 0], predicted, "predicted depth (m)", {"vmin": low, "vmax": high}),
            (axes[1, 1], np.abs(predicted - true), "absolute error (m)", {"cmap": "magma_r"}),
        )
        for panel, values, title, options in maps:
            shown = panel.imshow(values, extent=extent(values, patch), **options)
            panel.set_title(title)
            panel.figure.colorbar(shown, ax=panel, shrink=0.8)
        for panel in axes.ravel():
            bare(panel)


def patches(rows: pd.DataFrame, predicted: np.ndarray, patch: int, folder: Path) -> None:
    """Around each row: the image, true depth, predicted depth and absolute error."""
    image, true = load_motorcycle().images[0], truth(patch)
    height, width = image.shape[:2]
    error = np.abs(predicted - true)
    low, high = np.nanmin(true), np.nanmax(true)
    lines = (
        ("image", None, {}),
        ("true (m)", true, {"vmin": low, "vmax": high}),
        ("predicted (m)", predicted, {"vmin": low, "vmax": high}),
        ("error (m)", error, {"vmin": 0, "vmax": np.nanquantile(error, 0.99), "cmap": "magma_r"}),
    )
    options = {"width": PAGE, "height": 6.2}
    with figure(folder, "depth_patches", 4, len(rows), **options) as axes:
        for panels, (title, values, look) in zip(axes, lines, strict=True):
            for panel, row in zip(panels, rows.itertuples(), strict=True):
                shown = (
                    panel.imshow(image)
                    if values is None
                    else panel.imshow(values, extent=extent(values, patch), **look)
                )
                box(panel, row, patch)
                x = np.clip(row.image_column, WINDOW, width - WINDOW)
                y = np.clip(row.image_row, WINDOW, height - WINDOW)
                panel.set(xlim=(x - WINDOW, x + WINDOW), ylim=(y + WINDOW, y - WINDOW))
                bare(panel)
            panels[0].set_ylabel(title)
            if values is not None:
                panels[0].figure.colorbar(shown, ax=list(panels), shrink=0.9, pad=0.01)
        for panel, row in zip(axes[0], rows.itertuples(), strict=True):
            panel.set_title(f"{row.quantile:.0%}, row {row.row}")
        for panel, row in zip(axes[3], rows.itertuples(), strict=True):
            panel.set_xlabel(
                f"{row.true:.2f} m\npredicted {row.predicted:.2f} m\nerror {row.residual:.2g} m"
            )


def extent(values: np.ndarray, patch: int) -> tuple[int, int, int, int]:
    """Where a map lies, in pixels: the last patches may reach beyond the image, or end before."""
    return 0, patch * values.shape[1], patch * values.shape[0], 0


def box(panel, line, size: float) -> None:
    half = size / 2
    corner = (line.image_column + 0.5 - half, line.image_row + 0.5 - half)
    for colour, width in (("white", 1.8), (RED, 0.9)):  # red stands out on anything but red
        look = {"fill": False, "edgecolor": colour, "linewidth": width}
        panel.add_patch(Rectangle(corner, size, size, **look))


if __name__ == "__main__":
    render_script(__doc__, render)
