"""A released pipeline as a skops file: data that is checked when it is read, not code."""

from typing import Any

from pilu._extras import need
from pilu.exceptions import WrongInput


def skops_file(model: Any) -> bytes:
    """A fitted estimator as the content of a skops file."""
    skops = need("skops.io", for_="releases as .skops", extra="desk")
    try:
        dumped: bytes = skops.dumps(model)
    except Exception as error:  # of many kinds: skops has no error of its own for it
        raise WrongInput(
            f"the fitted pipeline cannot be written by skops: {type(error).__name__}: {error}. "
            "Release it as .json."
        ) from error
    return dumped
