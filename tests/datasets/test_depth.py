"""Depth: patches against a loop, Motorcycle against scikit-image, others on files made here."""

import io
import statistics

import h5py
import numpy as np
import pytest
import skimage.data
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pilu.datasets import (
    DatasetUnavailable,
    describe,
    load,
    load_motorcycle,
    load_nyu_depth,
    patch_targets,
)
from pilu.datasets import depth as depth_module
from pilu.datasets.fetch import cache_folder


def patches_one_by_one(depth, size):
    """(image, row, column, median) of every patch, as its definition reads."""
    found = []
    n, height, width = depth.shape
    for image in range(n):
        for top in range(0, height, size):
            for left in range(0, width, size):
                row, column = top + size // 2, left + size // 2
                if row >= height or column >= width or np.isnan(depth[image, row, column]):
                    continue
                pixels = depth[image, top : top + size, left : left + size].ravel().tolist()
                known = [pixel for pixel in pixels if pixel == pixel]
                found.append((image, row, column, statistics.median(known)))
    return found


@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 13), st.integers(1, 13)),
    size=st.integers(1, 6),
    unknown=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_patches_are_those_of_a_loop(shape, size, unknown, seed):
    size = min(size, 2 * min(shape[1:]) - 1)  # larger ones have their centre outside
    rng = np.random.default_rng(seed)
    depth = rng.uniform(0.5, 10, shape)
    depth[rng.random(shape) < unknown] = np.nan
    found = patch_targets(depth, size)
    assert list(zip(*(part.tolist() for part in found), strict=True)) == patches_one_by_one(
        depth, size
    )


def test_a_patch_with_its_centre_outside_counts_nowhere():
    assert len(patch_targets(np.ones((1, 2, 2)), 5).depth) == 0


def test_two_patches_by_hand():
    nan = np.nan
    depth = np.array([[[1.0, 2, nan, 7], [3, 4, 5, 9], [nan, 6, nan, 8]]])
    found = patch_targets(depth, 3)
    # The second patch is a cut off column, and its centre lies outside.
    assert [part.tolist() for part in found] == [[0], [1], [1], [3.5]]


@pytest.mark.parametrize("size", [0, -1, 1.5, True])
def test_a_size_that_is_none(size):
    with pytest.raises(ValueError, match=r"size must be an integer >= 1, got size="):
        patch_targets(np.ones((1, 4, 4)), size)


def test_a_single_image_without_its_axis():
    with pytest.raises(ValueError, match=r"depth must be n x height x width, got depth=\(4, 5\)"):
        patch_targets(np.ones((4, 5)), 3)


def test_motorcycle_is_the_scene_of_scikit_image():
    """Metres by the calibration in scikit-image's documentation: millimetres, other operations."""
    left, _, disparity = skimage.data.stereo_motorcycle()
    found = load_motorcycle()
    np.testing.assert_array_equal(found.images, left[None], strict=True)
    assert found.depth.shape == (1, 500, 741)
    for row, column in np.random.default_rng(0).integers(0, (500, 741), (200, 2)):
        offset = float(disparity[row, column])
        expected = 193.001 / ((offset + 31.086) / 994.978) / 1000 if np.isfinite(offset) else np.nan
        np.testing.assert_allclose(found.depth[0, row, column], expected, rtol=1e-12)
    np.testing.assert_array_equal(np.isnan(found.depth[0]), ~np.isfinite(disparity))


def test_motorcycle_stands_in_a_room():
    """A few metres away, and the floor in front nearer than the wall behind."""
    depth = load_motorcycle().depth[0]
    assert 2 < np.nanmin(depth) < np.nanmax(depth) < 6
    assert np.nanmedian(depth[-50:]) < np.nanmedian(depth[:50])


def test_motorcycles_patches():
    _, _, disparity = skimage.data.stereo_motorcycle()
    patches = patch_targets(load_motorcycle().depth, 3)
    assert len(patches.depth) == np.isfinite(disparity[1::3, 1::3]).sum() == 38_252
    assert np.isfinite(patches.depth).all()


def test_another_motorcycle_is_refused(monkeypatch):
    left, right, disparity = skimage.data.stereo_motorcycle()
    disparity = disparity.copy()
    disparity[250, 300] += 1
    monkeypatch.setattr(skimage.data, "stereo_motorcycle", lambda: (left, right, disparity))
    with pytest.raises(DatasetUnavailable, match=r'pip install "scikit-image==0\.26\.0"'):
        load_motorcycle()


def test_aloe_from_a_small_archive(make_archive, monkeypatch, rng):
    """Metres by the data set's page: millimetres and a shifted disparity. Zero is unknown."""
    colours = rng.integers(0, 256, (4, 5, 3), dtype=np.uint8)
    disparity = np.array([[0, 1, 46, 211, 255]] * 4, dtype=np.uint8)
    files = {}
    for name, pixels in {"aloeL.jpg": colours, "aloeGT.png": disparity}.items():
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "PNG")  # read by content: a JPEG would lose values
        files[f"opencv-python-headless-4.12.0.88/opencv/samples/data/{name}"] = buffer.getvalue()
    package = make_archive("small.tar.gz", files)
    monkeypatch.setattr(depth_module, "pip_package", lambda *_: package)
    found = load("aloe")
    np.testing.assert_array_equal(found.images, colours[None], strict=True)
    expected = [np.nan, *(160 * 3740 / (d + 270) / 1000 for d in (1, 46, 211, 255))]
    np.testing.assert_allclose(found.depth, np.broadcast_to(expected, (1, 4, 5)), rtol=1e-12)


@pytest.mark.slow
def test_the_real_aloe_stands_before_a_cloth():
    """Between one and two metres away, dense, its pot nearer than the cloth above it."""
    images, depth = load("aloe")
    assert images.shape == (1, 1110, 1282, 3)
    assert "in 1110 x 1282 pixels" in describe("aloe")
    archive = cache_folder() / "opencv-python-headless-4.12.0.88.tar.gz"
    assert f"to download: {archive.stat().st_size / 1e6:.0f} MB" in describe("aloe")
    assert np.isfinite(depth).mean() > 0.95
    assert 1 < np.nanmin(depth) < np.nanmax(depth) < 2
    pot, cloth = depth[0, 900:1000, 800:1000], depth[0, 100:300, 100:400]
    assert np.nanmax(pot) < np.nanmin(cloth)


@pytest.fixture
def nyu(tmp_path, rng):
    """Three scenes of 4 x 5 pixels, written as MATLAB does: the last axis first."""
    images = rng.integers(0, 256, (3, 4, 5, 3), dtype=np.uint8)
    depth = rng.uniform(0.7, 10, (3, 4, 5)).astype(np.float32)
    depth[1, 2, 3] = 0  # no measurement
    path = tmp_path / "nyu_depth_v2_labeled.mat"
    matlab_images = np.empty((4, 5, 3, 3), dtype=np.uint8)  # height, width, colour, scene
    matlab_depth = np.empty((4, 5, 3), dtype=np.float32)
    for scene in range(3):
        matlab_images[:, :, :, scene] = images[scene]
        matlab_depth[:, :, scene] = depth[scene]
    with h5py.File(path, "w") as file:
        # MATLAB counts along columns, HDF5 along rows: the same bytes have reversed axes.
        file["images"] = np.ascontiguousarray(matlab_images.T)
        file["depths"] = np.ascontiguousarray(matlab_depth.T)
        file["rawDepths"] = np.zeros((3, 5, 4), dtype=np.float32)
    return path, images, depth


def test_nyu_depth_in_matlabs_layout(nyu):
    path, images, depth = nyu
    found = load_nyu_depth(path)
    np.testing.assert_array_equal(found.images, images, strict=True)
    assert found.depth.dtype == np.float64
    assert np.isnan(found.depth[1, 2, 3])
    assert np.isnan(found.depth).sum() == 1
    known = depth > 0
    np.testing.assert_array_equal(found.depth[known], depth[known])


def test_only_the_first_scenes(nyu):
    path, images, depth = nyu
    found = load_nyu_depth(str(path), n_images=1)
    np.testing.assert_array_equal(found.images, images[:1])
    np.testing.assert_array_equal(found.depth, depth[:1])


@pytest.mark.parametrize("n_images", [0, 1.0])
def test_a_number_of_scenes_that_is_none(nyu, n_images):
    with pytest.raises(ValueError, match="n_images must be an integer >= 1"):
        load_nyu_depth(nyu[0], n_images)


def test_no_nyu_file(tmp_path):
    path = tmp_path / "nyu_depth_v2_labeled.mat"
    with pytest.raises(DatasetUnavailable, match="path of NYU-Depth V2 must be a file") as caught:
        load_nyu_depth(path)
    assert f"got {path}. Download nyu_depth_v2_labeled.mat (2.8 GB) from" in str(caught.value)


def test_a_file_that_is_not_hdf5(tmp_path):
    path = tmp_path / "old.mat"
    path.write_bytes(b"MATLAB 5.0 MAT-file" + bytes(200))
    with pytest.raises(DatasetUnavailable, match=r"must be a MATLAB 7\.3 \(HDF5\) file") as caught:
        load_nyu_depth(path)
    assert str(path) in str(caught.value)


def test_an_hdf5_file_of_something_else(tmp_path):
    path = tmp_path / "other.mat"
    with h5py.File(path, "w") as file:
        file["images"] = np.zeros(3)
        file["labels"] = np.zeros(3)
    with pytest.raises(DatasetUnavailable, match="must hold 'images' and 'depths'") as caught:
        load_nyu_depth(path)
    message = str(caught.value)
    assert str(path) in message
    assert "got ['images', 'labels']. The labelled part of NYU-Depth V2 does." in message


def test_nyu_depth_with_other_shapes_or_fewer_images(tmp_path):
    path = tmp_path / "odd.mat"
    with h5py.File(path, "w") as file:
        file["images"] = np.zeros((2, 3, 5, 4), dtype=np.uint8)
        file["depths"] = np.ones((2, 5, 4), dtype=np.float32)
    with pytest.raises(ValueError, match="n_images must be at most 2, the images in the file"):
        load_nyu_depth(path, n_images=3)
    with h5py.File(path, "a") as file:
        del file["depths"]
        file["depths"] = np.ones((3, 5, 4), dtype=np.float32)
    with pytest.raises(DatasetUnavailable, match="depths of n x width x height, got"):
        load_nyu_depth(path)


def test_nyu_depth_by_name_says_which_file_it_wants(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DatasetUnavailable, match=r"Download nyu_depth_v2_labeled\.mat"):
        load("nyu_depth")
