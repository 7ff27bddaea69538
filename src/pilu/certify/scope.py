"""What a certificate promises and what it does not, as named booleans and numbers.

A certificate carries these alone. The sentences are made of them when they are shown (`promises_of`
and `LIMITS`), so that rewording one alters no certificate. The statements are derived in
docs/guarantee.md.
"""

import math
from collections.abc import Mapping
from typing import Any

from pilu._digits import up

__all__ = [
    "FACTS_OF_BATCHES",
    "LIMITS",
    "promises_of",
    "scope_of_langevin",
    "scope_of_redraw",
]

# Of mini-batches: whether learning came to any of the rows' batches, whether unlearning came to all
# of them, and whether one has no rows left.
FACTS_OF_BATCHES = ("batches_visited", "batches_revisited", "batches_left_empty")

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
    # A classifier may keep the name of a class that has no row left.
    "covers_class_names": False,
}

# In words, what is not promised.
LIMITS = (
    "Step size, alpha, the number of steps and feature scaling are treated as constants, although "
    "some were computed while the rows were present.",
    "A scaler or any other preprocessing fitted with the rows is not covered: fit it on other data "
    "or keep it fixed.",
    "Only the parameters named by parameters_sha256 are covered: not parameters published before, "
    "copies, backups, statistics, nor the rows themselves where they are still stored.",
    "Steps, epsilon, seed and stopping must have been chosen without looking at realised "
    "parameters, and the request must not depend on an earlier release.",
    "Noise levels, quotes, plans, predicted utility, mu and evidence depend on the rows, plans and "
    "utility on the validation data too: publishing them says something about both.",
    "The proof is for real numbers; floating-point sampling is outside of it.",
)


def scope_of_langevin(
    *,
    private: bool,
    conditional: bool,
    epsilon: float,
    delta: float,
    slack: float,
    both_directions: bool,
) -> dict[str, Any]:
    """Scope of a certificate issued after Langevin unlearning."""
    reverse_delta: float | None
    if conditional:
        reverse_delta = None  # the total is stated in the direction of Definition 1
    elif both_directions:
        reverse_delta = delta
    elif slack > 0:  # the sensitivity bounds hold along the run with the rows (Theorem 1)
        reverse_delta = min(delta - slack + math.exp(min(epsilon, 700.0)) * slack, 1.0)
    else:
        reverse_delta = None
    return {
        "private": private,
        "self_referenced": True,
        "equal_to_retraining": False,
        "conditional_on_earlier_requests": conditional,
        "reverse_delta": reverse_delta,
        **_COMMON,
    }


def scope_of_redraw(*, private: bool) -> dict[str, Any]:
    """Scope of a certificate issued after a redraw."""
    return {
        "private": private,
        "self_referenced": True,
        "equal_to_retraining": True,
        "conditional_on_earlier_requests": False,
        "reverse_delta": 0.0,
        **_COMMON,
    }


def promises_of(record: Mapping[str, Any]) -> list[str]:
    """What a certificate, given as a record of its fields, says in words, its limits aside."""
    private = _entropy(record["scope"]["private"] is True)
    if record["method"] == "redraw":
        return [
            "The parameters were drawn afresh from the law of learning without any forgotten row: "
            "both sides of Definition 1 coincide, and nothing of the earlier parameters was used.",
            *private,
        ]
    return [*_about_laws(record), *_about_batches(record), *_about_runs(record), *private]


def _about_laws(record: Mapping[str, Any]) -> list[str]:
    epsilon, delta = up(record["epsilon"], 6), up(record["delta"], 6)
    if record["scope"]["conditional_on_earlier_requests"]:
        return [
            "For every set S of parameters, "
            f"P(S) <= e^{up(record['total_epsilon'], 6)} Q(S) + {up(record['total_delta'], 6)}: P "
            "is the law of the released parameters, Q that of the same learning and unlearning "
            "runs without these rows and without all rows forgotten since the last redraw.",
            f"The smaller epsilon = {epsilon} and delta = {delta} are conditional: they compare "
            "two runs that both lack the rows forgotten earlier, and are not a promise about the "
            "released parameters by themselves.",
        ]
    words = [
        f"For every set S of parameters, P(S) <= e^{epsilon} Q(S) + {delta}: P is the law of the "
        "released parameters, Q that of the same learning and unlearning run on the data without "
        "the rows (self-referenced unlearning, Definition 1).",
    ]
    reverse_delta = record["scope"]["reverse_delta"]
    if reverse_delta is not None:
        words.append(f"The other way round, Q(S) <= e^{epsilon} P(S) + {up(reverse_delta, 6)}.")
    return words


def _about_batches(record: Mapping[str, Any]) -> list[str]:
    words, facts = [], record["checks"]
    if not facts.get("batches_visited", True):
        words.append(
            "The run never came to the batches of these rows, so it has learned nothing from them."
        )
    elif not facts.get("batches_revisited", True):
        words.append(
            "The unlearning steps ended before the batches of all these rows had their turn again: "
            "the promise rests on noise and on steps on other batches, and holds all the same."
        )
    if facts.get("batches_left_empty", False):
        words.append(
            "A batch has no rows left. It keeps its turn, in both runs: its step is shrinkage by "
            "alpha and noise."
        )
    return words


def _about_runs(record: Mapping[str, Any]) -> list[str]:
    delta_means = record["accountant"].get("delta_means")
    if delta_means is None:
        return []
    words = [
        f"How well the rows were fitted on the way was estimated by auxiliary runs; of delta, "
        f"{up(delta_means, 6)} is for their being wrong. The loss and its options are treated as "
        "constants, and delta must have been chosen before any quote was looked at.",
    ]
    if record["noise"] == 0.0:
        words.append(
            "No noise was needed, so the epsilon that is stated is not one that was asked for: it "
            "was computed from the auxiliary runs and depends on them. Other runs would state "
            "another one; each holds but for the part of delta set aside for the runs."
        )
    return words


def _entropy(private: bool) -> list[str]:
    if private:
        return ["The noise came from the operating system's entropy and was not kept."]
    return [
        "NOT PRIVATE: the noise came from a seed (random_state). Whoever knows the seed can undo "
        "it. Such a certificate is for experiments only."
    ]
