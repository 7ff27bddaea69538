"""Depth in metres: two scenes, NYU-Depth V2 from the user's file, and their patches."""

import hashlib
import io
import tarfile
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilu._checks import check_integer, complaint
from pilu._extras import need
from pilu.datasets.fetch import pip_package, read_member, user_file
from pilu.exceptions import DatasetUnavailable

# Of the scene at a quarter of its size, as scikit-image documents it.
_FOCAL_LENGTH, _OFFSET, _BASELINE = 994.978, 31.086, 0.193001  # pixels, pixels, metres
# Of the full size: focal length and baseline from the data set's page, the offset from the scene's
# dmin.txt, which OpenCV leaves out.
_ALOE_FOCAL_LENGTH, _ALOE_OFFSET, _ALOE_BASELINE = 3740.0, 270.0, 0.16  # pixels, pixels, metres
_NYU_REMEDY = (
    "Download nyu_depth_v2_labeled.mat (2.8 GB) from the page of NYU-Depth V2 and pass its path."
)
_MOTORCYCLE = "3f31c498415fbe5cd59699076a0d933f0c8df64cd74cb94fd221b9c8093952a4"
_OPENCV = "cfdc017ddf2e59b6c2f53bc12d74b6b0be7ded4ec59083ea70763921af2b6c09"


class DepthImages(NamedTuple):
    """Photographs (n x height x width x 3, uint8) and depth in metres (nan: unknown)."""

    images: NDArray[np.uint8]
    depth: NDArray[np.float64]


class Patches(NamedTuple):
    """Square patches with a known depth at their centre: their places and median depths."""

    image: NDArray[np.intp]
    row: NDArray[np.intp]  # of the centre, in pixels
    column: NDArray[np.intp]
    depth: NDArray[np.float64]


def load_motorcycle() -> DepthImages:
    """One indoor scene with dense true depth (Middlebury 2014), 500 x 741, from scikit-image."""
    data = need("skimage.data", for_="load_motorcycle", extra="datasets", package="scikit-image")
    left, _, disparity = data.stereo_motorcycle()
    sha256 = hashlib.sha256(left.tobytes() + disparity.tobytes()).hexdigest()
    if sha256 != _MOTORCYCLE:
        raise DatasetUnavailable(
            f"the Motorcycle scene must have the sha256 {_MOTORCYCLE}, got {sha256}. Install the "
            'tested version: pip install "scikit-image==0.26.0"'
        )
    known = np.isfinite(disparity)
    depth = np.full(disparity.shape, np.nan)
    depth[known] = _BASELINE * _FOCAL_LENGTH / (disparity[known].astype(np.float64) + _OFFSET)
    return DepthImages(left[None], depth[None])


def load_aloe() -> DepthImages:
    """A potted plant with dense true depth (Middlebury 2006), 1110 x 1282; a download of 95 MB.

    The photograph and its disparity are samples in the source archive of OpenCV's Python package.
    """
    image = need("PIL.Image", for_="load_aloe", extra="datasets", package="pillow")
    folder = "opencv-python-headless-4.12.0.88"
    package = pip_package("opencv-python-headless", "4.12.0.88", f"{folder}.tar.gz", _OPENCV)
    with tarfile.open(package) as archive:
        left, disparity = (
            np.asarray(image.open(io.BytesIO(read_member(archive, f"{folder}/{name}"))))
            for name in ("opencv/samples/data/aloeL.jpg", "opencv/samples/data/aloeGT.png")
        )
    known = disparity > 0
    depth = np.full(disparity.shape, np.nan)
    offset = disparity[known].astype(np.float64) + _ALOE_OFFSET
    depth[known] = _ALOE_BASELINE * _ALOE_FOCAL_LENGTH / offset
    return DepthImages(left[None], depth[None])


def load_nyu_depth(path: str | Path | None = None, n_images: int | None = None) -> DepthImages:
    """NYU-Depth V2 (Silberman et al. 2012), the labelled part, from the user's file.

    Never run on the original, which no package registry has. It follows the documented layout and
    is tested on small files in that layout.

    Parameters
    ----------
    path : path
        ``nyu_depth_v2_labeled.mat`` (2.8 GB), from the data set's own page. By default the file
        of this name in the working directory.
    n_images : int, optional
        How many of the 1,449 scenes to load, the first ones; by default all.
    """
    h5py = need("h5py", for_="load_nyu_depth", extra="datasets")
    path = user_file(path or "nyu_depth_v2_labeled.mat", "path of NYU-Depth V2", _NYU_REMEDY)
    if n_images is not None:
        check_integer("n_images", n_images, least=1)
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise DatasetUnavailable(
            f"{path} must be a MATLAB 7.3 (HDF5) file: {error}. {_NYU_REMEDY}"
        ) from None
    with file:
        if not {"images", "depths"} <= set(file):
            raise DatasetUnavailable(
                f"{path} must hold 'images' and 'depths', got {sorted(file)}. The labelled part "
                "of NYU-Depth V2 does."
            )
        shapes = file["images"].shape, file["depths"].shape
        if len(shapes[0]) != 4 or shapes[0][1] != 3 or shapes[0][::2] + shapes[0][3:] != shapes[1]:
            raise DatasetUnavailable(
                f"{path} must hold images of n x 3 x width x height and depths of n x width x "
                f"height, got {shapes[0]} and {shapes[1]}. {_NYU_REMEDY}"
            )
        if n_images is not None and n_images > shapes[0][0]:
            raise complaint("n_images", f"at most {shapes[0][0]}, the images in the file", n_images)
        # MATLAB writes the last axis first: images are n x 3 x width x height here.
        images = np.asarray(file["images"][:n_images]).transpose(0, 3, 2, 1)
        depth = np.asarray(file["depths"][:n_images], dtype=np.float64).transpose(0, 2, 1)
    return DepthImages(np.ascontiguousarray(images), np.where(depth > 0, depth, np.nan))


def patch_targets(depth: NDArray[np.float64], size: int) -> Patches:
    """Patches of size x size pixels side by side, and the median of the known depths in each.

    A patch counts if the depth at its centre is known. Patches at the edge may be cut off.
    """
    check_integer("size", size, least=1)
    if depth.ndim != 3:
        raise complaint("depth", "n x height x width", depth.shape)
    n, height, width = depth.shape
    centre = size // 2
    rows, columns = np.arange(centre, height, size), np.arange(centre, width, size)
    grid = depth[:, rows][:, :, columns]
    image, i, j = np.nonzero(np.isfinite(grid))
    padded = np.full((n, len(rows) * size, len(columns) * size), np.nan)
    kept = depth[:, : padded.shape[1], : padded.shape[2]]
    padded[:, : kept.shape[1], : kept.shape[2]] = kept
    tiles = padded.reshape(n, len(rows), size, len(columns), size).transpose(0, 1, 3, 2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # patches without any depth
        median = np.nanmedian(tiles.reshape(*tiles.shape[:3], size * size), axis=3)
    return Patches(image, rows[i], columns[j], median[image, i, j])
