"""The least noise worth adding: below it, the parameters' rounding would swallow it.

More noise is never less private, so a calibrated noise under the floor is raised to it. The floor
is taken from the law, not from realised parameters, and is the same whichever rows are forgotten.
"""

import math

from pilu.certify.accountant import Accountant, Calibration, Law, Target
from pilu.chains.request import Request

__all__ = ["VISIBLE_ULPS", "calibrate_with_floor", "noise_floor"]

VISIBLE_ULPS = 2.0**12  # rounding units of the parameters that one step's noise must span


def noise_floor(law: Law, n_unlearn_steps: int) -> float:
    """Least sigma whose step spans enough rounding units of the parameters, with any rows or not.

    A power of two: how large the parameters may become has few digits that matter.
    """
    size = law.largest_size(n_unlearn_steps)
    exact = VISIBLE_ULPS * 2.0**-52 * size / math.sqrt(2 * law.step_size)
    return 2.0 ** math.ceil(math.log2(exact)) if exact > 0 else 0.0


def calibrate_with_floor(
    accountant: Accountant, law: Law, request: Request, target: Target
) -> Calibration:
    """The accountant's calibration, with noise raised to the floor where it is below."""
    answer = accountant.calibrate(law, request, target)
    floor = noise_floor(law, target.n_unlearn_steps)
    if 0.0 < answer.noise < floor:
        return accountant.spend(law, request, floor, target)
    return answer
