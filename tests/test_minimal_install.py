"""The core runs with NumPy, SciPy and scikit-learn alone, and names the extra that is missing."""

import subprocess
import sys

PROGRAM = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        absent = "pandas matplotlib mpmath torch pytest typer pyarrow skimage".split()
        if name.split(".")[0] in absent:
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Absent())
import numpy as np
import pilu

rng = np.random.default_rng(0)
model = pilu.LangevinRidge(n_steps=20, noise=0.1).fit(rng.normal(size=(20, 3)), rng.normal(size=20))
quote = model.quote()
model.verify(model.unlearn(3))
def frame():
    pilu.compare(rng.normal(size=(20, 3)), rng.normal(size=20), [3], epsilon=1.0)

def picture():
    from pilu.plotting import plot_comparison
    plot_comparison(None)

def scene():
    pilu.datasets.load("motorcycle")

pilu.auditing.audit(rng.normal(size=(20, 2)), rng.normal(size=(20, 2)), delta=0.1)
def command():
    from pilu.cli import main
    main()

for call in (quote.to_frame, frame, picture, scene, command):
    try:
        call()
    except (ImportError, SystemExit) as error:
        print(error)
"""


SERVICE = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in "fastapi uvicorn httpx psycopg_pool".split():
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Absent())
from pilu.cli import main
from pilu.service.database import open_database

def client():
    from pilu.client import Client

for call in (main, client, lambda: open_database("postgresql://nowhere")):
    try:
        call()
    except (ImportError, SystemExit) as error:
        print(error, file=sys.stderr)
"""


def test_the_service_names_its_extras(tmp_path):
    command = [sys.executable, "-W", "error", "-c", SERVICE, "serve", "--stores", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    said = run.stderr
    assert 'pilu serve needs fastapi. Install it with: pip install "pilu[serve]"' in said
    assert 'pip install "pilu[client]"' in said
    assert 'needs psycopg_pool. Install it with: pip install "pilu[serve-postgres]"' in said
    assert "Traceback" not in said


def test_core_without_extras():
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    to_frame, compare, picture, scene, command = run.stdout.splitlines()
    assert to_frame.startswith("Quote.to_frame needs pandas")
    assert compare.startswith("compare needs pandas")
    assert 'pip install "pilu[pandas]"' in compare
    assert picture.startswith("plot_comparison needs matplotlib")
    assert 'pip install "pilu[plot]"' in picture
    assert scene.startswith("load_motorcycle needs scikit-image")
    assert 'pip install "pilu[datasets]"' in scene
    assert command.startswith("pilu: the command line needs typer")
    assert 'pip install "pilu[desk]"' in command


PLATFORM = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "fcntl":
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, Absent())
sys.modules.pop("fcntl", None)
import pilu
from pilu.cli import main

print(pilu.LangevinRidge.__name__)
for call in (main, lambda: pilu.desk.Desk):
    try:
        call()
    except (ImportError, SystemExit) as error:
        print(error)
"""


def test_the_desk_names_a_platform_without_posix_locks():
    command = [sys.executable, "-W", "error", "-c", PLATFORM]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    core, line, desk = run.stdout.splitlines()
    assert core == "LangevinRidge"
    assert line.startswith("pilu: the command line needs a POSIX system")
    assert desk.startswith("a store needs a POSIX system")
    assert f"got {sys.platform}." in desk
