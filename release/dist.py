"""Builds what is released from the last commit, and tries it: `make dist`.

Source archive and wheel are built twice, in two folders, and must agree in every byte. The wheel is
then installed and used in new environments: alone and with its extras, with the lowest versions
that pyproject.toml allows and with the newest ones.
"""

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

from release.lowest import ROOT, lowest_versions

SMOKE = Path(__file__).with_name("smoke.py")
EXTRAS = {"core": "", "desk": "[desk]"}


def run(*words: str | Path, cwd: Path | None = None) -> None:
    """Run a program, and stop at its failure."""
    subprocess.run(list(map(str, words)), cwd=cwd, check=True)


def build(folder: Path, when: int) -> list[Path]:
    """Clone the last commit into a folder and build source archive and wheel, in this order."""
    # A clone has the modes of our umask and nothing that is not committed.
    run("git", "clone", "--quiet", ROOT, folder / "clone")
    python = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "out"]
    run(*python, "--sdist", folder / "clone")
    (source,) = (folder / "out").iterdir()
    normalise(source, when)
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    run(*python, "--wheel", folder / source.name.removesuffix(".tar.gz"))
    (wheel,) = (folder / "out").glob("*.whl")
    return [source, wheel]


def normalise(source: Path, when: int) -> None:
    """Write a source archive again: sorted, with one time and no owner. setuptools does not."""
    part = source.with_suffix(".part")
    with (
        tarfile.open(source) as old,
        part.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=when) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mtime, member.pax_headers = when, {}
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    part.replace(source)


def build_twice(folder: Path) -> list[Path]:
    """Build in two folders, and refuse archives that differ."""
    os.umask(0o022)
    git = ["git", "log", "-1", "--format=%ct"]
    when = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    os.environ["SOURCE_DATE_EPOCH"] = when
    first, second = (
        build(folder / "first", int(when)),
        build(folder / "second" / "deeper", int(when)),
    )
    for one, other in zip(first, second, strict=True):
        digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (one, other)]
        if one.name != other.name or digests[0] != digests[1]:
            raise SystemExit(f"two builds must agree, got {one} and {other} that differ.")
        print(f"{digests[0]}  {one.name}")
    return first


def try_wheel(wheel: Path, folder: Path, kind: str, constraints: Iterable[str]) -> None:
    """Install the wheel in a new environment and use it there."""
    run(sys.executable, "-m", "venv", folder)
    (folder / "constraints.txt").write_text("\n".join(constraints))
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, "-c", folder / "constraints.txt", f"{wheel}{EXTRAS[kind]}")
    run(python, "-m", "pip", "check", "--disable-pip-version-check")
    run(python, SMOKE, kind, cwd=folder)


def main() -> None:
    """Build, check, try; what passed is in dist/."""
    with tempfile.TemporaryDirectory() as folder:
        built = build_twice(Path(folder))
        run(sys.executable, "-m", "twine", "check", "--strict", *built)
        run(Path(sys.executable).with_name("check-wheel-contents"), built[1])
        lowest = [f"{name}=={bound}" for name, bound in lowest_versions().items()]
        for versions, constraints in (("lowest", lowest), ("newest", [])):
            for kind in EXTRAS:
                print(f"{kind} with the {versions} versions", flush=True)
                try_wheel(built[1], Path(folder, f"{versions}-{kind}"), kind, constraints)
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        (ROOT / "dist").mkdir()
        for path in built:
            shutil.copy(path, ROOT / "dist")


if __name__ == "__main__":
    main()
