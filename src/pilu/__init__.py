"""pilu: make a trained model forget people, and prove it.

>>> import numpy as np
>>> from sklearn.linear_model import Ridge
>>> from sklearn.pipeline import make_pipeline
>>> from sklearn.preprocessing import StandardScaler
>>> from pilu import Forgetful, verify
>>> rng = np.random.default_rng(0)
>>> X, y, people = rng.normal(size=(200, 5)), rng.normal(size=200), np.arange(200) // 2
>>> model = Forgetful(make_pipeline(StandardScaler(), Ridge())).fit(X, y, subjects=people)
>>> certificate = model.unlearn(subject=21)
>>> certificate.rows
(42, 43)
>>> verify(certificate, model)["epsilon_recomputed"]
True

`LangevinRidge` and its like take noisy steps in place of a fit:

>>> from pilu import LangevinRidge
>>> model = LangevinRidge(n_steps=100, noise=0.1).fit(X, y)
>>> len(model.quote(epsilon=1.0, n_unlearn_steps=5))
200
>>> model.unlearn(42, epsilon=1.0).rows
(42,)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pilu import accounting, auditing, baselines, datasets, desk, losses, plotting
    from pilu.baselines.compare import compare
    from pilu.certify.certificate import Certificate
    from pilu.certify.exact import Exact
    from pilu.certify.theorem import Theorem
    from pilu.estimators.forgetful import Forgetful
    from pilu.estimators.planning import Plan
    from pilu.estimators.quote import Quote
    from pilu.estimators.ridge import LangevinRidge, LangevinRidgeClassifier
    from pilu.estimators.smooth import LangevinHuber, LangevinLogistic
    from pilu.estimators.utility import Utility
    from pilu.estimators.verifying import verify
    from pilu.exceptions import AlreadyForgotten, CertificateMismatch, PiluError
    from pilu.refit.huber import HuberRidge

__all__ = [  # noqa: RUF022 - the reference begins with what most people need
    "Forgetful",
    "verify",
    "AlreadyForgotten",
    "Certificate",
    "CertificateMismatch",
    "Exact",
    "HuberRidge",
    "LangevinHuber",
    "LangevinLogistic",
    "LangevinRidge",
    "LangevinRidgeClassifier",
    "PiluError",
    "Plan",
    "Quote",
    "Theorem",
    "Utility",
    "accounting",
    "auditing",
    "baselines",
    "compare",
    "datasets",
    "desk",
    "losses",
    "plotting",
]

# Names are imported on first use. Worker processes that quote rows need neither scikit-learn nor
# the estimators, and take half the memory without them.
_HOME = {
    "AlreadyForgotten": "exceptions",
    "Certificate": "certify.certificate",
    "CertificateMismatch": "exceptions",
    "Exact": "certify.exact",
    "Forgetful": "estimators.forgetful",
    "HuberRidge": "refit.huber",
    "LangevinHuber": "estimators.smooth",
    "LangevinLogistic": "estimators.smooth",
    "LangevinRidge": "estimators.ridge",
    "LangevinRidgeClassifier": "estimators.ridge",
    "PiluError": "exceptions",
    "Plan": "estimators.planning",
    "Quote": "estimators.quote",
    "Theorem": "certify.theorem",
    "Utility": "estimators.utility",
    "compare": "baselines.compare",
    "verify": "estimators.verifying",
}

_ROOMS = ("accounting", "auditing", "baselines", "datasets", "desk", "losses", "plotting")


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name in _ROOMS:
        return import_module(f"pilu.{name}")
    if name in _HOME:
        value = globals()[name] = getattr(import_module(f"pilu.{_HOME[name]}"), name)
        return value
    raise AttributeError(f"module 'pilu' has no attribute {name!r}")


def _version() -> str:
    # Imported late: it would double the start-up time of the command line.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("pilu")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
