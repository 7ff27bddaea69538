"""The least noise worth adding: below it, the parameters' rounding would swallow it.

More noise is never less private, so a calibrated noise under the floor is raised to it. The floor
is taken from the law, not from realised parameters.
"""

import math

from pilu.certify.accountant import Accountant, Calibration, Law, Request, Target

__all__ = ["VISIBLE_ULPS", "calibrate_with_floor", "noise_floor"]

VISIBLE_ULPS = 2.0**12  # rounding units of the parameters that one step's noise must span


def noise_floor(law: Law) -> float:
    """Least sigma whose step spans enough rounding units of parameters as large as the mean."""
    return VISIBLE_ULPS * 2.0**-52 * law.size / math.sqrt(2 * law.step_size)


def calibrate_with_floor(
    accountant: Accountant, law: Law, request: Request, target: Target
) -> Calibration:
    """The accountant's calibration, with noise raised to the floor where it is below."""
    answer = accountant.calibrate(law, request, target)
    floor = noise_floor(law)
    if 0.0 < answer.noise < floor:
        return accountant.spend(law, request, floor, target)
    return answer
