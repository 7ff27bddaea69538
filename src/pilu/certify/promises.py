"""What a certificate guarantees and what it does not, in sentences.

A certificate contains only named booleans and numbers (`certificate.scope_of`). Sentences are
rendered from them when shown, so rewording a sentence alters no certificate. The statements are
derived in docs/guarantee.md.
"""

from collections.abc import Mapping
from typing import Any

from pilu._digits import up

# What the released parameters are compared with, by method.
REFERENCES = {
    "langevin": "the same learning and unlearning run without the rows",
    "redraw": "the same learning run without the rows",
    "refit": "the same pipeline fitted on the rows that are left",
}

# What is not guaranteed, in sentences.
_LIMITS_OF_CHAINS = (
    "Step size, alpha, the number of steps and feature scaling are treated as constants, although "
    "some were computed while the rows were present.",
    "A scaler or any other preprocessing fitted with the rows is not covered. Fit it on other data "
    "or keep it fixed.",
    "Only the parameters identified by parameters_sha256 are covered. Parameters published "
    "earlier, copies, backups, statistics and stored rows are not.",
    "Steps, epsilon, seed and stopping must have been chosen without looking at realised "
    "parameters. The request must not depend on an earlier release.",
    "Noise levels, quotes, plans, predicted utility, mu and evidence depend on the rows. Plans and "
    "utility also depend on the validation data. Publishing them reveals something about both.",
    "The proof is for real numbers. It does not cover floating-point sampling.",
)

_LIMITS_OF_REFIT = (
    "Models, predictions, scaler means or other results that were published earlier are not "
    "covered. Comparing them with this release can reveal the removed rows.",
    "Preprocessing outside of the estimator is not covered: a scaler in a pipeline around "
    "Forgetful, or weights and features that were computed with the removed rows. Put the whole "
    "pipeline inside.",
    "Only the released parameters, transformers and class names are covered, not backups or stored "
    "rows.",
    "Grids, columns, epsilon and score_noise must have been chosen without looking at earlier "
    "results. The best of several refits is not covered, nor is what a search around Forgetful "
    "chose: put the search inside.",
    "Requests may depend on earlier releases, but the comparison is always with the rows that are "
    "left now. If somebody left because of what a release showed about another person, the "
    "remaining rows themselves tell of it.",
    "The time that a fit took and the rounding of transformers on other hardware are not covered. "
    "Column types are taken as they were at fit. Functions and classes of your own must keep no "
    "state between fits.",
    "The proof is for real numbers. It does not cover floating-point sampling of the noise.",
)


def line_of(record: Mapping[str, Any]) -> str:
    """The method, the number of rows and the total guarantee, in a line."""
    n = len(record["rows"])
    rows = f"{n} row{'' if n == 1 else 's'}, " if n else ""
    total = "total " if record["conditional_on"] else ""
    epsilon, delta = up(record["total_epsilon"]), up(record["total_delta"])
    return f"{record['method']}, {rows}{total}epsilon {epsilon}, {total}delta {delta}"


def limits_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """What a certificate does not guarantee, in sentences."""
    return _LIMITS_OF_REFIT if record["method"] == "refit" else _LIMITS_OF_CHAINS


def promises_of(record: Mapping[str, Any]) -> list[str]:
    """The guarantee of a certificate, given as a record of its fields, in sentences."""
    last = [*_about_learning(record), *_entropy(record["scope"]["private"] is True)]
    if record["method"] == "redraw":
        return [
            "The parameters were drawn anew from the law of learning without any forgotten row. "
            "Both sides of Definition 1 coincide, and the earlier parameters were not used.",
            *last,
        ]
    if record["method"] == "refit":
        return [*_about_refit(record), *_about_earlier(record), *last]
    return [*_about_laws(record), *_about_batches(record), *_about_runs(record), *last]


def _about_refit(record: Mapping[str, Any]) -> list[str]:
    epsilon, delta = up(record["epsilon"], 6), up(record["delta"], 6)
    return [
        f"For every set S of parameters, P(S) <= e^{epsilon} Q(S) + {delta} and "
        f"Q(S) <= e^{epsilon} P(S) + {delta}. P is the law of the released parameters, whatever "
        "happened before. Q is the law of running the same pipeline, final noise included, on the "
        "rows that are left.",
        "Preprocessing, class names and hyperparameters that were chosen inside of the estimator "
        "are those of the rows that are left.",
    ]


def _about_earlier(record: Mapping[str, Any]) -> list[str]:
    """What earlier releases with shaped noise revealed, where the evidence says so."""
    earlier = (record["evidence"] or {}).get("earlier")
    if earlier is None:
        return []
    given = "" if earlier["covers_preprocessing"] else ", the preprocessing"
    words = []
    for person in earlier["people"]:
        n, rows = person["n_releases"], ", ".join(map(str, person["rows"][:5]))
        rows += ", ..." if len(person["rows"]) > 5 else ""
        which = f"{n} earlier releases together are" if n > 1 else "1 earlier release is"
        if person["epsilon"] is None:
            had = f"{n} earlier releases" if n > 1 else "1 earlier release"
            words.append(f"Rows {rows}: nothing bounds what {had} revealed about them.")
            continue
        words.append(
            f"Rows {rows}: {which} within epsilon = {up(person['epsilon'], 4)} and "
            f"delta = {up(person['delta'], 4)} of the same without these rows, in both "
            f"directions, given the noise scales, the penalties{given} and the other changes of "
            "the table. This number depends on the rows. Show it to nobody but the person."
        )
    return words


def _about_laws(record: Mapping[str, Any]) -> list[str]:
    epsilon, delta = up(record["epsilon"], 6), up(record["delta"], 6)
    if record["scope"]["conditional_on_earlier_requests"]:
        return [
            "For every set S of parameters, "
            f"P(S) <= e^{up(record['total_epsilon'], 6)} Q(S) + {up(record['total_delta'], 6)}. P "
            "is the law of the released parameters. Q is the law of the same learning and "
            "unlearning runs without these rows and without all rows forgotten since the last "
            "redraw.",
            f"The smaller epsilon = {epsilon} and delta = {delta} are conditional. They compare "
            "two runs that both lack the rows forgotten earlier. On their own they guarantee "
            "nothing about the released parameters.",
        ]
    words = [
        f"For every set S of parameters, P(S) <= e^{epsilon} Q(S) + {delta}. P is the law of the "
        "released parameters. Q is the law of the same learning and unlearning run on the data "
        "without the rows (self-referenced unlearning, Definition 1).",
    ]
    reverse_delta = record["scope"]["reverse_delta"]
    if reverse_delta is not None:
        words.append(f"In the other direction, Q(S) <= e^{epsilon} P(S) + {up(reverse_delta, 6)}.")
    return words


def _about_learning(record: Mapping[str, Any]) -> list[str]:
    if not record["schedule"] or record["schedule"][0][0] is not None:
        return []
    return [
        "Learning was one draw from the law that learning steps converge to. The run without the "
        "rows draws from that law without the rows, with the same step size."
    ]


def _about_batches(record: Mapping[str, Any]) -> list[str]:
    words, facts = [], record["checks"]
    if not facts.get("batches_visited", True):
        words.append(
            "The run never visited the batches of these rows, so it learned nothing from them."
        )
    elif not facts.get("batches_revisited", True):
        words.append(
            "The unlearning steps did not visit the batches of all these rows again. The guarantee "
            "still holds: it comes from the noise and from the steps on other batches."
        )
    if facts.get("batches_left_empty", False):
        words.append(
            "A batch is empty. In both runs it still takes its step, which is shrinkage by alpha "
            "and noise."
        )
    return words


def _about_runs(record: Mapping[str, Any]) -> list[str]:
    delta_means = record["accountant"].get("delta_means")
    if delta_means is None:
        return []
    words = [
        "Auxiliary runs estimated how well the rows were fitted during the run. Their estimates "
        f"may be wrong with probability {up(delta_means, 6)}, which is part of delta. The loss and "
        "its options are treated as constants. Delta must have been chosen before any quote "
        "was seen.",
    ]
    if record["noise"] == 0.0:
        words.append(
            "No noise was needed, so the stated epsilon is not the requested one. It was computed "
            "from the auxiliary runs, and other runs would state another one. Each is valid except "
            "for the part of delta set aside for the runs."
        )
    return words


def _entropy(private: bool) -> list[str]:
    if private:
        return ["The noise was drawn from the operating system's entropy and was not stored."]
    return [
        "NOT PRIVATE: the noise was drawn from a seed (random_state). Anyone who knows the seed "
        "can remove it. Such a certificate is for experiments only."
    ]
