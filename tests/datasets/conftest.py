"""Made on the spot: a cache, archives, and checkpoints like DINOv2's; and a single thread."""

import io
import math
import tarfile
import zipfile

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """On busy machines, threads wait for each other at every one of thousands of tiny layers."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("PILU_CACHE", str(folder))
    return folder


@pytest.fixture
def make_archive(tmp_path):
    """Writes {name in the archive: bytes} to a .zip or .whl, or else to a gzipped tar."""

    def make(name, files):
        path = tmp_path / name
        if path.suffix in (".zip", ".whl"):
            with zipfile.ZipFile(path, "w") as archive:
                for inner, content in files.items():
                    archive.writestr(inner, content)
        else:
            with tarfile.open(path, "w:gz") as archive:
                for inner, content in files.items():
                    info = tarfile.TarInfo(inner)
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
        return path

    return make


@pytest.fixture(scope="session")
def checkpoint():
    """Random weights under the names of DINOv2's own files."""

    def make(width=128, depth=2, hidden=320, patch=14, grid=4):
        random = torch.Generator().manual_seed(7)
        shapes = {
            "cls_token": (1, 1, width),
            "pos_embed": (1, 1 + grid**2, width),
            "mask_token": (1, width),
            "patch_embed.proj.weight": (width, 3, patch, patch),
            "patch_embed.proj.bias": (width,),
        }
        for k in range(depth):
            shapes |= {
                f"blocks.{k}.{name}": shape
                for name, shape in {
                    "norm1.weight": (width,),
                    "norm1.bias": (width,),
                    "attn.qkv.weight": (3 * width, width),
                    "attn.qkv.bias": (3 * width,),
                    "attn.proj.weight": (width, width),
                    "attn.proj.bias": (width,),
                    "ls1.gamma": (width,),
                    "norm2.weight": (width,),
                    "norm2.bias": (width,),
                    "mlp.fc1.weight": (hidden, width),
                    "mlp.fc1.bias": (hidden,),
                    "mlp.fc2.weight": (width, hidden),
                    "mlp.fc2.bias": (width,),
                    "ls2.gamma": (width,),
                }.items()
            }
        shapes |= {"norm.weight": (width,), "norm.bias": (width,)}
        scale = {name: 1 / math.sqrt(np.prod(shape[1:]) or 1) for name, shape in shapes.items()}
        scale |= {"pos_embed": 1, "cls_token": 1}
        return {
            name: scale[name] * torch.randn(shape, generator=random, dtype=torch.float64)
            for name, shape in shapes.items()
        }

    return make
