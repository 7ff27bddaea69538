"""Features with small networks that we see through: what they are given, how often, and where.

Pictures are resized as Pillow does it, tokens are computed image by image.
"""

import json

import numpy as np
import pytest
import torch
from experiments.features import hypercolumns, image_features, patch_tokens
from experiments.features.cache import BATCH, PART
from experiments.features.networks import VisionTransformer
from experiments.features.weights import Frozen
from PIL import Image

from oracles.networks import dinov2_weights
from pilu.datasets.depth import Patches

MEAN, DEVIATION = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


@pytest.fixture(autouse=True)
def own_cache(cache):
    """Nothing here may reach the user's."""


class Counting(torch.nn.Module):
    """Some function of the images, counting them; it can be interrupted at one of its calls."""

    def __init__(self, function, interrupted_at=None):
        super().__init__()
        self.function, self.interrupted_at = function, interrupted_at
        self.calls = self.seen = 0

    def forward(self, images):
        self.calls += 1
        if self.calls == self.interrupted_at:
            raise KeyboardInterrupt
        self.seen += len(images)
        return self.function(images)


def pixels(function=lambda images: images.flatten(1), **options):
    return Frozen("pixels", Counting(function, **options), "made up", "ab" * 32)


def means(**options):
    return pixels(lambda images: images.mean((2, 3)), **options)


@pytest.fixture
def images(rng):
    return rng.integers(0, 256, (3, 40, 48, 3), dtype=np.uint8)


def normalised(images):
    """n x height x width x 3, from 0 to 1, as a network trained on ImageNet wants it."""
    return np.moveaxis((images - MEAN) / DEVIATION, 3, 1).reshape(len(images), -1)


def test_images_of_the_right_size_are_only_normalised(rng):
    images = rng.integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    found = image_features(images, pixels(), size=32).values
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, normalised(images / 255), atol=2e-6)


def resized(images, size, filtered):
    """By Pillow, each channel alone and without rounding to bytes."""
    result = np.empty((len(images), size, size, 3))
    for k, channel in np.ndindex(len(images), 3):
        grey = Image.fromarray(images[k, :, :, channel].astype(np.float32) / 255)
        result[k, :, :, channel] = np.asarray(grey.resize((size, size), filtered))
    return result


@pytest.mark.parametrize("size", [32, 45, 100])
def test_other_images_are_resized_as_pillow_does_it(images, size):
    expected = normalised(resized(images, size, Image.Resampling.BILINEAR))
    found = image_features(images, pixels(), size=size).values
    # Places in single precision are wrong by 1e-6 of a pixel; one level of grey is 0.017.
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_grey_images_are_three_times_the_same_channel(rng):
    grey = rng.integers(0, 256, (3, 40, 48), dtype=np.uint8)
    found = image_features(grey, pixels(), size=32).values
    expected = image_features(np.stack([grey] * 3, axis=3), pixels(), size=32).values
    np.testing.assert_array_equal(found, expected)


def test_computed_once(images):
    network = pixels()
    first = image_features(images, network, size=32)
    again = image_features(images.copy(), network, size=32)
    assert network.network.seen == 3
    np.testing.assert_array_equal(first.values, again.values)
    assert first.provenance == again.provenance


def test_provenance_is_kept_beside_the_numbers(images, cache):
    found = image_features(images, pixels(), size=33)
    array, record = sorted(cache.joinpath("features").iterdir(), key=lambda path: path.suffix)[::-1]
    assert (array.suffix, record.suffix) == (".npy", ".json")
    np.testing.assert_array_equal(np.load(array), found.values)
    assert json.loads(record.read_text()) == found.provenance
    told = found.provenance
    assert (told["network"], told["weights"]) == ("pixels", "made up")
    assert (told["weights_sha256"], told["size"]) == ("ab" * 32, 33)
    assert told["shape"] == [3, 3 * 33 * 33]
    assert told["versions"]["torch"] == torch.__version__


def test_other_data_weights_or_size_are_other_features(images, cache):
    changed = images.copy()
    changed[1, 2, 3, 0] ^= 1
    flat = images.reshape(3, 48, 40, 3)  # the same bytes
    other = Frozen("pixels", pixels().network, "made up", "cd" * 32)
    calls = [
        (images, pixels(), 32),
        (images, pixels(), 33),
        (changed, pixels(), 32),
        (flat, pixels(), 32),
        (images, other, 32),
    ]
    told = [image_features(data, network, size=size).provenance for data, network, size in calls]
    assert len(list(cache.joinpath("features").glob("*.npy"))) == len(calls)
    data = [one["data_sha256"] for one in told]
    assert data[0] == data[1] == data[4]
    assert len({data[0], data[2], data[3]}) == 3


def test_an_interrupted_call_goes_on_where_it_was(rng, cache):
    many = rng.integers(0, 256, (PART + 70, 32, 32), dtype=np.uint8)
    first_part = -(-PART // BATCH)
    network = means(interrupted_at=first_part + 2)
    with pytest.raises(KeyboardInterrupt):
        image_features(many, network, size=32)
    assert list(cache.joinpath("features").glob("*.npy")) == []
    after = means()
    found = image_features(many, after, size=32).values
    assert after.network.seen == 70
    expected = (many.mean(axis=(1, 2))[:, None] / 255 - MEAN) / DEVIATION
    np.testing.assert_allclose(found, expected, atol=1e-5)
    # Nothing is left of the parts.
    assert sorted(path.suffix for path in cache.joinpath("features").iterdir()) == [
        ".json",
        ".npy",
    ]


@pytest.mark.parametrize(
    "bad",
    [
        np.zeros((2, 4, 4, 3)),
        np.zeros((4, 4), dtype=np.uint8),
        np.zeros((2, 3, 4, 4), dtype=np.uint8),
        np.zeros((0, 4, 4), dtype=np.uint8),
    ],
    ids=["floats", "one image", "channels first", "none"],
)
def test_bad_images(bad):
    expected = r"images must be bytes of shape n x height x width, or x 3, with n > 0, got "
    with pytest.raises(ValueError, match=expected) as caught:
        image_features(bad, pixels(), size=32)
    assert f"{bad.dtype} of shape {bad.shape}" in str(caught.value)


@pytest.mark.parametrize("size", [31, 32.0, None])
def test_a_size_that_is_none(images, size):
    with pytest.raises(ValueError, match="size must be an integer >= 32, got size="):
        image_features(images, pixels(), size=size)


def test_a_network_that_is_not_packaged(images):
    with pytest.raises(ValueError, match="network must be one of 'resnet50'"):
        image_features(images, "resnet18", size=32)


def test_the_rest_of_the_program_keeps_its_denormal_numbers(images):
    tiny = np.float64(2.0**-1060)
    assert tiny * 0.5 > 0
    image_features(images, pixels(), size=32)
    assert tiny * 0.5 > 0


def ramps(images):
    """Two maps whose values are places in the image: one of its size, one of half of it.

    Row r of the smaller one lies between rows 2 r and 2 r + 1.
    """
    height, width = images.shape[2:]

    def grid(step):
        rows = torch.arange(height // step) * step + (step - 1) / 2
        columns = torch.arange(width // step) * step + (step - 1) / 2
        return torch.stack(torch.meshgrid(rows, columns, indexing="ij"))[None]

    return [torch.cat([images[:, :1], grid(1)], dim=1), grid(2)]


@pytest.fixture
def patches():
    """Four places in three images of 40 x 48, of which the second has none."""
    image, row, column = np.array([[0, 0, 2, 2], [3, 10, 39, 0], [7, 22, 47, 1]])
    return Patches(image, row, column, np.ones(4))


def test_hypercolumns_are_the_maps_at_the_patches(images, patches):
    found = hypercolumns(images, patches, pixels(ramps))
    red = (images[patches.image, patches.row, patches.column, 0] / 255 - 0.485) / 0.229
    # Interpolated between two places of the smaller map; beyond its edge, the edge's value.
    expected = [
        [red[0], 3, 7, 3, 7],
        [red[1], 10, 22, 10, 22],
        [red[2], 39, 47, 38.5, 46.5],
        [red[3], 0, 1, 0.5, 1],
    ]
    np.testing.assert_allclose(found.values, expected, atol=1e-4)
    assert found.provenance["shape"] == [4, 5]


def test_hypercolumns_of_grey_images(rng, patches):
    grey = rng.integers(0, 256, (3, 40, 48), dtype=np.uint8)
    found = hypercolumns(grey, patches, pixels(ramps)).values
    expected = hypercolumns(np.stack([grey] * 3, axis=3), patches, pixels(ramps)).values
    np.testing.assert_array_equal(found, expected)


def test_hypercolumns_look_once_at_images_with_patches(images, patches):
    network = pixels(ramps)
    first = hypercolumns(images, patches, network)
    again = hypercolumns(images, patches, network)
    assert network.network.seen == 2
    np.testing.assert_array_equal(first.values, again.values)


def test_hypercolumns_elsewhere_are_others(images, patches):
    network = pixels(ramps)
    first = hypercolumns(images, patches, network).values
    moved = hypercolumns(images, patches._replace(row=patches.row[[1, 0, 2, 3]]), network).values
    np.testing.assert_allclose(moved[:, 1], [10, 3, 39, 0], atol=1e-4)
    np.testing.assert_allclose(first[:, 1], [3, 10, 39, 0], atol=1e-4)


def test_interrupted_hypercolumns_go_on_with_the_next_image(images, patches):
    with pytest.raises(KeyboardInterrupt):
        hypercolumns(images, patches, pixels(ramps, interrupted_at=2))
    after = pixels(ramps)
    hypercolumns(images, patches, after)
    assert after.network.seen == 1


def test_unsorted_patches_are_refused(images, patches):
    with pytest.raises(ValueError, match="patches must be sorted by image"):
        hypercolumns(images, Patches(*(part[::-1] for part in patches)), pixels(ramps))


def test_patches_outside_of_the_image_are_refused(images, patches):
    with pytest.raises(ValueError, match="patches must"):
        hypercolumns(images, patches._replace(row=patches.row + 40), pixels(ramps))


@pytest.fixture
def transformer():
    """A small vision transformer for images of 28 x 28: 2 x 2 patches."""
    network = VisionTransformer(dinov2_weights(64, 1, 64, grid=2))
    return Frozen("small", network, "made up", "ef" * 32)


@pytest.fixture
def squares(rng):
    return rng.integers(0, 256, (3, 28, 28, 3), dtype=np.uint8)


def test_patch_tokens_beside_the_class_token(squares, transformer):
    found = patch_tokens(squares, transformer, size=28).values.reshape(3, 4, 128)
    for k, image in enumerate(squares):
        given = torch.from_numpy(normalised(image[None] / 255).reshape(1, 3, 28, 28)).float()
        with torch.inference_mode():
            whole, tokens = (part[0].numpy() for part in transformer.network(given))
        np.testing.assert_allclose(found[k, :, :64], tokens, atol=1e-4)
        for row in found[k, :, 64:]:
            np.testing.assert_allclose(row, whole / np.sqrt((whole**2).sum()), atol=1e-5)


@pytest.mark.parametrize(("number", "top", "left"), [(0, 0, 0), (1, 0, 14), (2, 14, 0)])
def test_patches_are_row_by_row(squares, transformer, number, top, left):
    """Without attention, a change in one patch is seen in its own token alone."""
    with torch.inference_mode():
        transformer.network.backbone.encoder.layer[0].layer_scale1.lambda1.zero_()
    changed = squares.copy()
    changed[1, top : top + 14, left : left + 14] ^= 255
    before, after = (
        patch_tokens(data, transformer, size=28).values[:, :64] for data in (squares, changed)
    )
    assert before.shape == (12, 64)
    assert np.flatnonzero(np.abs(before - after).max(axis=1) > 1e-4).tolist() == [4 + number]


def test_patch_tokens_of_larger_images(squares, transformer):
    found = patch_tokens(squares, transformer, size=70)
    assert found.values.shape == (3 * 25, 128)
    assert found.provenance["size"] == 70
    np.testing.assert_allclose((found.values[:, 64:] ** 2).sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("size", [28, 70])
def test_images_for_tokens_are_resized_as_pillow_does_it(images, size):
    """Cubic, and cut off where that leaves the range from black to white."""

    def one_token(given):
        flat = given.flatten(1)
        return flat, flat[:, None]

    sharp = np.where(images > 127, 255, 0).astype(np.uint8)
    expected = resized(sharp, size, Image.Resampling.BICUBIC)
    assert expected.max() > 1.05
    found = patch_tokens(sharp, pixels(one_token), size=size).values[:, : 3 * size**2]
    np.testing.assert_allclose(found, normalised(expected.clip(0, 1)), atol=1e-4)


def test_a_size_that_patches_do_not_fill_is_refused(squares, transformer):
    with pytest.raises(ValueError, match=r"size must be .*multiple of 14"):
        patch_tokens(squares, transformer, size=30)
