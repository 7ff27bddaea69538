"""Many groups of rows, each a request, answered a stack at a time."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pilu.certify.accountant import Calibration
from pilu.chains.comparison import Comparison
from pilu.chains.problem import Law
from pilu.data.rows import Request

Array = NDArray[np.float64]
Answer = Callable[[Sequence[Comparison]], list[Calibration]]

_STACK = 16  # requests answered together


def answer_piece(
    law: Law,
    answer: Answer,
    block: Request,
    sizes: NDArray[np.intp],
) -> Array:
    """Noise and epsilon of the consecutive groups of a block, of given sizes."""
    answers, likely, ends = [], 0, np.cumsum(sizes)
    with law.threads():
        for first in range(0, len(sizes), _STACK):
            stack = slice(first, first + _STACK)
            groups = list(zip(ends[stack].tolist(), sizes[stack].tolist(), strict=True))
            comparisons = [
                law.comparison(block.part(slice(end - size, end)), likely if size == 1 else 0)
                for end, size in groups
            ]
            answered = answer(comparisons)
            answers += [(a.noise, a.epsilon) for a in answered]
            # The next rows likely need a space as large as most of these did.
            pairs = zip(comparisons, groups, strict=True)
            used = sorted(seen.size for seen, (_, size) in pairs if size == 1)
            likely = used[len(used) // 2] if used else 0
    return np.array(answers)
