"""Pure privacy numbers: nothing here knows of ridge regression or of data."""

from pilu.accounting.curves import GaussianCurve, PrivacyCurve, Spent
from pilu.accounting.gaussians import GaussianPair
from pilu.accounting.gdp import delta_from_mu, epsilon_from_mu, mu_from_epsilon
from pilu.accounting.many_pairs import epsilons_of_pairs
from pilu.accounting.quantiles import ncx2_upper_quantile
from pilu.accounting.renyi import (
    NoisyChain,
    gaussian_epsilon,
    gaussian_noise,
    renyi_divergences,
    renyi_epsilon,
    renyi_noise,
)
from pilu.accounting.shifted import mu_from_sensitivities

__all__ = [
    "GaussianCurve",
    "GaussianPair",
    "NoisyChain",
    "PrivacyCurve",
    "Spent",
    "delta_from_mu",
    "epsilon_from_mu",
    "epsilons_of_pairs",
    "gaussian_epsilon",
    "gaussian_noise",
    "mu_from_epsilon",
    "mu_from_sensitivities",
    "ncx2_upper_quantile",
    "renyi_divergences",
    "renyi_epsilon",
    "renyi_noise",
]
