"""The core runs with NumPy, SciPy and scikit-learn alone, and names the extra that is missing."""

import subprocess
import sys

PROGRAM = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"pandas", "matplotlib", "mpmath", "hypothesis", "pytest"}:
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Absent())
import numpy as np
import pilu

rng = np.random.default_rng(0)
model = pilu.LangevinRidge(n_steps=20, noise=0.1).fit(rng.normal(size=(20, 3)), rng.normal(size=20))
quote = model.quote()
model.verify(model.unlearn(3))
try:
    quote.to_frame()
except ImportError as error:
    print(error)
"""


def test_core_without_extras():
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert 'pip install "pilu[pandas]"' in run.stdout
