"""What a certificate promises and what it does not, as named booleans and in words.

The statements are derived in docs/guarantee.md.
"""

from typing import Any

__all__ = ["scope_of_langevin", "scope_of_redraw"]

_COMMON = {
    # What the analysis treats as constants although the row was present when they were computed.
    "covers_step_size_and_regularisation": False,
    "covers_preprocessing_fitted_with_the_row": False,
    "covers_choices_made_after_seeing_parameters": False,
    # What else may still speak of the row.
    "covers_earlier_releases_and_copies": False,
    "covers_published_noise_levels_and_quotes": False,
    "covers_requests_that_depend_on_a_release": False,
    "covers_floating_point": False,
    # A model that keeps a label of which it has no row left would be the exception.
    "covers_class_names": False,
}

_WORDS = [
    "Step size, alpha, the number of steps and feature scaling are treated as constants, although "
    "some were computed while the rows were present.",
    "A scaler or any other preprocessing fitted with the rows is not covered: fit it on other data "
    "or keep it fixed.",
    "Only the parameters named by parameters_sha256 are covered: not parameters published before, "
    "copies, backups, statistics, nor the rows themselves where they are still stored.",
    "Steps, epsilon, seed and stopping must have been chosen without looking at realised "
    "parameters, and the request must not depend on an earlier release.",
    "Noise levels, quotes, mu and evidence depend on the rows: publishing them says something "
    "about the rows.",
    "The proof is for real numbers; floating-point sampling is outside of it.",
]


def scope_of_langevin(
    *, private: bool, conditional: bool, epsilon: float, delta: float, reverse_delta: float
) -> dict[str, Any]:
    """Scope of a certificate issued after Langevin unlearning."""
    words = [
        f"For every set S of parameters, P(S) <= e^{epsilon:.6g} Q(S) + {delta:.6g}: P is the law "
        "of the released parameters, Q that of the same learning and unlearning run on the data "
        "without the rows (self-referenced unlearning, Definition 1).",
        f"The other way round, Q(S) <= e^{epsilon:.6g} P(S) + {reverse_delta:.6g}.",
    ]
    if conditional:
        words.append(
            "This epsilon is conditional: it compares two runs that both lack the rows forgotten "
            "earlier. Against the run that lacks those rows and these, the promise is "
            "total_epsilon and total_delta."
        )
    return {
        "reference": "the same learning and unlearning run without the rows",
        "private": private,
        "self_referenced": True,
        "equal_to_retraining": False,
        "conditional_on_earlier_requests": conditional,
        "reverse_delta": reverse_delta,
        **_COMMON,
        "words": [*words, *_WORDS, *_entropy(private)],
    }


def scope_of_redraw(*, private: bool) -> dict[str, Any]:
    """Scope of a certificate issued after a redraw."""
    words = [
        "The parameters were drawn afresh from the law of learning without any forgotten row: "
        "both sides of Definition 1 coincide, and nothing of the earlier parameters was used.",
    ]
    return {
        "reference": "learning without the rows",
        "private": private,
        "self_referenced": True,
        "equal_to_retraining": True,
        "conditional_on_earlier_requests": False,
        "reverse_delta": 0.0,
        **_COMMON,
        "words": [*words, *_WORDS, *_entropy(private)],
    }


def _entropy(private: bool) -> list[str]:
    if private:
        return ["The noise came from the operating system's entropy and was not kept."]
    return [
        "NOT PRIVATE: the noise came from a seed (random_state). Whoever knows the seed can undo "
        "it. Such a certificate is for experiments only."
    ]
