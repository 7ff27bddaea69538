"""Uses an installed pilu as its README does: `python smoke.py core` or `python smoke.py desk`.

`core` is for an environment without extras and checks that each missing one is named.
"""

import pickle
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pilu
from pilu.exceptions import MissingExtra


def refit() -> None:
    """Forget people by a refit, before and after the model went through pickle."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = (X[:, 0] + rng.normal(size=600) > 0).astype(int)
    X[rng.random(X.shape) < 0.05] = np.nan
    people = np.array([f"person {i // 2}" for i in range(600)])
    head = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression())
    model = pilu.Forgetful(head).fit(X, y, subjects=people)
    certificate = model.unlearn(subject="person 7")
    left = people != "person 7"
    rows = {"X": X[left], "y": y[left], "subjects": people[left]}
    checks = pilu.verify(certificate, model, **rows)
    assert {"parameters_checked", "epsilon_recomputed"} <= {one for one in checks if checks[one]}
    assert certificate.versions["pilu"] == pilu.__version__ == version("pilu")
    assert len(model.exposure()) == 299

    model = pickle.loads(pickle.dumps(model))
    left &= people != "person 9"
    model.attach(X[left], y[left])
    model.unlearn(subject="person 9")
    assert model.predict_proba(X[:5]).shape == (5, 2)


def langevin() -> None:
    """Forget a row by Langevin steps, and publish the certificate as JSON."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 5)), rng.normal(size=200)
    model = pilu.LangevinRidge(n_steps=100, noise=0.1).fit(X, y)
    certificate = model.unlearn(42, epsilon=1.0)
    model.verify(certificate)
    checks = pilu.verify(pilu.Certificate.from_json(certificate.to_json()))
    assert checks["epsilon_recomputed"], checks


def missing_extras() -> None:
    """What needs an extra names it, in Python and in the shell."""
    said = ""
    try:
        pilu.LangevinRidge(n_steps=20, noise=0.1).fit(np.eye(5), np.ones(5)).quote().to_frame()
    except MissingExtra as error:
        said = str(error)
    assert 'pip install "pilu[pandas]"' in said, said or "this environment is not minimal"
    run = command("--help", check=False)
    assert run.returncode != 0
    assert 'pip install "pilu[desk]"' in run.stderr, run.stderr


def desk() -> None:
    """Every command of the desk, on made-up customers, and one receipt checked again."""
    assert "unlearn" in command("--help").stdout
    with tempfile.TemporaryDirectory() as folder:
        command("demo", "--out", f"{folder}/demo")
        command("verify", f"{folder}/demo/c00001.json", "--store", f"{folder}/demo/store")


def command(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the installed `pilu`, the one beside this Python."""
    program = Path(sys.executable).with_name("pilu")
    run = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert not check or run.returncode == 0, run.stdout + run.stderr
    return run


if __name__ == "__main__":
    refit()
    langevin()
    {"core": missing_extras, "desk": desk}[sys.argv[1]]()
    print(f"pilu {pilu.__version__} with {sys.argv[1]}: fits, forgets, verifies")
