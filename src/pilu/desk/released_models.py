"""A released pipeline as bytes, by skops: data that is checked when it is read, not code.

skops loads only types that it knows, and those that are named. A store names the types of the
user's own transformers at the fit.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilu._extras import need
from pilu.exceptions import StoreDamaged, WrongInput
from pilu.tabular.pipelines import SKOPS_TYPES

Raw = NDArray[np.uint8]


def bytes_of_model(model: Any) -> bytes:
    """A fitted estimator as a skops file."""
    skops = need("skops.io", for_="models in a store", extra="desk")
    try:
        dumped: bytes = skops.dumps(model)
    except Exception as error:  # of many kinds: skops has no error of its own for it
        raise WrongInput(
            f"the fitted pipeline cannot be written by skops: {type(error).__name__}: {error}. "
            "Use transformers whose attributes are numbers, texts and arrays."
        ) from error
    return dumped


def types_to_trust(content: bytes) -> list[str]:
    """Types in a skops file that are neither scikit-learn's nor plain."""
    skops = need("skops.io", for_="models in a store", extra="desk")
    return sorted(set(skops.get_untrusted_types(data=content)) - set(SKOPS_TYPES))


def model_of_bytes(content: bytes, trusted: Sequence[str] = ()) -> Any:
    """The estimator in a skops file; other types than those that are trusted are refused."""
    skops = need("skops.io", for_="models in a store", extra="desk")
    found = types_to_trust(content)
    if strange := sorted(set(found) - set(trusted)):
        raise StoreDamaged(f"the model holds types that the store does not name: {strange}.")
    return skops.loads(content, trusted=[*found, *SKOPS_TYPES])
