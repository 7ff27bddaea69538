"""What forgetting would cost if the logistic loss were quadratic: an estimate, not a certificate.

Around the minimiser, log(1 + e^(-y z)) is g z + h (z - z0)^2 / 2 up to a constant, which is the
squared loss of the row sqrt(h) x with target sqrt(h) (z0 - g / h). The exact accountant of ridge
then says what the two laws of such a chain need. What the theorem asks for above that is not the
sensitivity bounds' doing: it contracts all past gradients by alpha alone.
"""

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from experiments.certificates.concentration import signs_of
from experiments.certificates.config import CONFIGS
from experiments.smooth.config import EPSILON
from experiments.smooth.engine import Engine, engine
from experiments.store import STORES
from pilu import LangevinRidge
from pilu.certify.theorem import Theorem

STUDIES = ("mnist38", "vader")


def compute(size: str, again: bool = False, studies: tuple[str, ...] = STUDIES) -> None:
    """One table a study."""
    for study in studies:

        def prepare(study: str = study) -> dict[str, Any]:
            _ = engine(study, size).noises
            return {"data": engine(study, size).data.provenance}

        def tables(study: str = study) -> dict[str, pd.DataFrame]:
            quantiles = CONFIGS[size].concentration.quantiles
            found = estimates(engine(study, size), quantiles)
            return {f"certificates_quadratic_{study}": found}

        settings = CONFIGS[size].describe("concentration", study)
        STORES[size].compute(f"certificates_quadratic_{study}", settings, prepare, tables, again)


def estimates(engine: Engine, quantiles: tuple[float, ...]) -> pd.DataFrame:
    """Noise by the theorem with concentration; by theorem and exactly for the quadratic."""
    order = np.argsort(engine.noises, kind="stable")
    rows = order[np.round(np.array(quantiles) * (len(order) - 1)).astype(int)].tolist()
    X, y = squared(engine)
    study = engine.study
    model = LangevinRidge(
        alpha=study.alpha,
        n_steps=study.n_steps,
        noise=study.noise,
        step_size=engine.model.step_size_,
        fit_intercept=False,
        random_state=study.seed,
    ).fit(X, y)
    K = study.n_unlearn_steps
    by_theorem, exact = (
        model.quote(rows, epsilon=EPSILON, n_unlearn_steps=K, accountant=accountant, n_jobs=1)
        for accountant in (Theorem(), "exact")
    )
    return pd.DataFrame(
        {
            "row": rows,
            "quantile": quantiles,
            "logistic": engine.noises[rows],
            "quadratic_theorem": by_theorem.noise,
            "quadratic_exact": exact.noise,
        }
    )


def squared(engine: Engine) -> tuple[np.ndarray, np.ndarray]:
    """Rows and targets of the squared loss that has the logistic loss's second order."""
    X, signs = engine.data.X, signs_of(engine)
    head = LogisticRegression(
        C=1 / engine.study.alpha, fit_intercept=False, tol=1e-8, max_iter=10_000
    )
    z = X @ head.fit(X, signs).coef_[0]
    g, h = -signs * expit(-signs * z), expit(z) * expit(-z)
    root = np.sqrt(h)
    return root[:, None] * X, root * z - g / root
