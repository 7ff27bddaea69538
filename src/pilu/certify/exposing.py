"""What the parameters as they are tell about some rows: both accountants without a later step.

Gaussian laws are compared exactly, in both directions. For other losses the theorem holds with
K = 0: on an event of probability 1 - slack the chain with the rows is a clipped one, P~, which is
mu-GDP against the chain without them, Q. Gaussian trade-off functions are symmetric, so

    P(S) <= P~(S) + slack <= e^eps Q(S) + delta_GDP(mu, eps) + slack
    Q(S) <= e^eps P~(S) + delta_GDP(mu, eps) <= e^eps P(S) + delta_GDP(mu, eps) + e^eps slack.

With slack = delta/2 e^-E and delta_GDP(mu, eps) = delta/2, both are at most delta if eps <= E. A
larger E makes the bounds on gradients, and so mu and eps, a little larger   [docs/exposure.md].
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pilu.accounting.gdp import epsilon_from_mu
from pilu.certify.accountant import Progress, Target
from pilu.certify.exact import Exact
from pilu.certify.theorem import Theorem
from pilu.chains.problem import Law
from pilu.data.rows import Request

Array = NDArray[np.float64]

_SHARE = 0.5  # of delta, for the bounds on gradients
_LEAST_SLACK = 1e-304
_DOWN = 1 - 1e-12  # covers the rounding of e^-E
_STEP = 1.2  # from an epsilon that is too large to the next E


def expose(
    law: Law,
    blocks: Iterable[tuple[Request, NDArray[np.intp]]],
    delta: float,
    progress: Progress,
) -> Array:
    """Epsilon, in both directions, of groups of rows; a block comes with the sizes of its groups.

    It is infinite where no finite one is proved.
    """
    if law.is_gaussian:
        return Exact().spend_groups(law, blocks, 0.0, Target(1.0, delta, 0, 0.0), progress)
    answers = []
    for block, sizes in blocks:
        ends = np.cumsum(sizes)
        starts = (ends - sizes).tolist()
        groups = [block.part(slice(*both)) for both in zip(starts, ends.tolist(), strict=True)]
        answers.append(_epsilon_bounds(law, groups, delta, progress))
    return np.concatenate(answers)


def _epsilon_bounds(law: Law, requests: list[Request], delta: float, progress: Progress) -> Array:
    epsilon, reach = np.full(len(requests), np.inf), np.zeros(len(requests))  # reach is E
    left = np.arange(len(requests))
    while len(left):
        slack = _DOWN * _SHARE * delta * np.exp(-reach[left])
        is_open = slack > _LEAST_SLACK
        progress(int(np.sum(~is_open)))  # they stay infinite
        left, slack = left[is_open], slack[is_open]
        pairs = zip(left.tolist(), slack.tolist(), strict=True)
        mu = np.array([Theorem().mu_now(law, requests[i], s) for i, s in pairs])
        found = np.asarray(epsilon_from_mu(mu, (1 - _SHARE) * delta))
        done = (found <= reach[left]) | np.isinf(found)
        epsilon[left[done]], reach[left] = found[done], _STEP * found
        left = left[~done]
        progress(int(np.sum(done)))
    return epsilon
