"""Letters to people who were forgotten, in plain words, each from one receipt.

A letter is made from the receipt of one person and says nothing about anybody else. The words are
Jinja2 templates, which a company can replace by its own (docs/letters.md).
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pilu._checks import check_choice
from pilu._digits import up
from pilu.certify.guessing import guess_bound, guess_from_point, percent
from pilu.certify.verify import total_of
from pilu.desk.letter_templates import rendered
from pilu.desk.receipt import Person, Receipt
from pilu.exceptions import WrongInput

# Details that every template may use; empty if they are not given.
_OPTIONAL = ("company", "contact", "key_at", "name")

_CHECKED = {  # names of checks, and what they mean to the reader
    "in_the_log_of_the_store": "We found this entry in our log when we wrote this letter.",
    "inputs_checked_against_data": "We also computed the result again from our data: it agreed.",
}


def letter_of(
    receipt: Receipt,
    *,
    format: Literal["html", "txt"] = "html",
    template: Path | None = None,
    verified: Mapping[str, bool] | None = None,
    **details: Any,
) -> str:
    """A letter to the person of a receipt.

    Parameters
    ----------
    receipt : Receipt
        Of one person. It is verified first, and refused if it does not hold.
    format : {"html", "txt"}
        In HTML, all values are escaped.
    template : path, optional
        A Jinja2 template in place of pilu's own.
    verified : mapping of str to bool, optional
        What was checked besides, as `desk.checking.check_receipt` returns it. The letter mentions
        what is True.
    **details
        More variables: `company`, `contact`, the person's `name` and `key_at` (where your public
        key is published) for pilu's own templates, and whatever a template of your own uses.

    Raises
    ------
    CertificateMismatch, LedgerMismatch
        The receipt was altered.
    WrongInput
        The receipt is about nobody, or the template has an error; the message names its line.
    """
    check_choice("format", format, ("html", "txt"))
    checks = {**receipt.verify(), **(verified or {})}
    if receipt.person is None:
        raise WrongInput(
            "a letter needs the receipt of one person, got one about nobody in particular."
        )
    variables = variables_of(receipt, checks)
    if taken := sorted(set(details) & (set(variables) - set(_OPTIONAL))):
        raise WrongInput(f"details must have other names than {', '.join(taken)}, which are taken.")
    given = {name: str(details.get(name) or "") for name in _OPTIONAL}
    given |= {k: " ".join(given[k].split()) for k in ("name", "company", "key_at")}
    return rendered(format, template, {**variables, **details, **given})


def variables_of(receipt: Receipt, checks: Mapping[str, bool]) -> dict[str, Any]:
    """What a template may use, besides the details (docs/letters.md)."""
    person, entry, certificate = receipt.person, receipt.entry, receipt.certificate
    assert person is not None
    method = certificate.method
    total = None if method == "refit" else total_of(certificate)
    right = guess_bound({name: getattr(certificate, name) for name in _FIELDS}, total)
    when = datetime.fromisoformat(str(entry["time"]))
    exposure = receipt.exposure
    return {
        "date": _date(when),
        "time": f"{when:%Y-%m-%d %H:%M:%S} UTC",
        "asked": _asked(entry),
        "done": _done(person, method, _date(when)),
        "promise": _PROMISES[method],
        "guess": _guess(right),
        "numbers": _numbers(certificate.total_epsilon, certificate.total_delta, method),
        "limits": [*_about_releases(exposure), *_LIMITS],
        "checked": [words for name, words in _CHECKED.items() if checks.get(name) is True],
        "method": method,
        "n_rows": _n_rows(person),
        "n_releases": None if exposure is None else int(exposure["n_releases"]),
        "exposure": None if exposure is None else {k: exposure[k] for k in ("epsilon", "delta")},
        "right_guesses": percent(right),
        "epsilon": certificate.total_epsilon,
        "delta": certificate.total_delta,
        "person": person.name,
        "entry": receipt.place,
        "head": str(receipt.head),
        "certificate_sha256": certificate.sha256,
        "store": str(entry.get("store", "")),
        "signed": receipt.signature is not None,
    }


_FIELDS = ("method", "scope", "mu", "epsilon", "delta", "total_epsilon", "total_delta")

_PROMISES = {
    "refit": "We computed our model again, from the data of other people only. To save time the "
    "computation began at the old model, and random noise hides what could be left of that. So the "
    "new model can hardly be told from one that never had your data.",
    "redraw": "The model that we use now was drawn anew from the data of other people. It is "
    "exactly as if your data had never been there.",
    "langevin": "We went on training our model on the data of other people, and added random "
    "noise, until it could hardly be told from a model that went through the same steps without "
    "your data.",
}

_LIMITS = (
    "Results that were computed with an earlier model, such as predictions or decisions, are not "
    "changed by this.",
    "The promise is about the model. Copies of your data in backups and in other systems are not "
    "covered: ask us about them, and when they expire.",
)


def _asked(entry: Mapping[str, Any]) -> str:
    if entry.get("kind") == "sync":
        return (
            "Your data was removed from our records. This letter says what we did so that our "
            "trained model forgets it, too."
        )
    return (
        "You asked us to forget you: to remove what our trained model has learned from your data. "
        "This letter says what we did."
    )


def _done(person: Person, method: str, day: str) -> str:
    n = _n_rows(person)
    whose = f"your {n:,} records" if n > 1 else "your record"
    how = "was computed again without them" if n > 1 else "was computed again without it"
    if method == "langevin":
        how = f"was changed so that it forgets {'them' if n > 1 else 'it'}"
    return f"On {day}, {whose} left the model: it {how}. The change is in our log, for good."


def _guess(right: float) -> str:
    chance = (
        "can do no better than toss a coin."
        if right <= 0.5
        else f"is right at most {percent(right)} % of the time. Tossing a coin is right 50 % of "
        "the time."
    )
    return (
        "Somebody who sees only the new model and must guess whether it came from us, or from "
        f"somebody who never had your data, {chance}"
    )


def _numbers(epsilon: float, delta: float, method: str) -> str:
    against = {
        "refit": "a model fitted without your data",
        "redraw": "a model learned without your data",
        "langevin": "the same steps without your data and that of others who left",
    }
    return (
        f"epsilon = {up(epsilon)} and delta = {up(delta)}, compared with {against[method]}. This "
        "is proved, not estimated."
    )


def _about_releases(exposure: Mapping[str, Any] | None) -> list[str]:
    """What is known of models that were handed out and had the person."""
    if exposure is None:
        return [
            "Models that were handed out before are not covered. This receipt does not say how "
            "many of them had your data."
        ]
    n = int(exposure["n_releases"])
    if n == 0:
        return [
            "Models that were handed out before the change are not covered. Our log has none that "
            "had your data."
        ]
    were = "1 model that had your data was" if n == 1 else f"{n:,} models that had your data were"
    text = f"{were} handed out before. This promise does not cover "
    text += "it: who has it" if n == 1 else "them: who has one of them"
    text += " can compare it with the new one, and may learn something about you."
    epsilon, delta = exposure["epsilon"], exposure["delta"]
    earlier = int(exposure["n_of_other_parameters"])
    if epsilon is None or delta is None or earlier == n:
        return [text, "Nothing limits what can be learned from such a comparison."]
    right = percent(guess_from_point(epsilon, delta, both=True))
    bound = (
        "What the last model before the change told about you is limited: somebody who guesses "
        f"from it whether it had your data is right at most {right} % of the time (epsilon = "
        f"{up(epsilon)}, delta = {up(delta)})."
    )
    if earlier:
        bound += " Nothing is known about the ones before it."
    return [text, bound]


def _n_rows(person: Person) -> int:
    rows = person.record.get("rows", 0)
    return len(rows) if isinstance(rows, list | tuple) else int(rows)


def _date(time: datetime) -> str:
    return f"{time.day} {time:%B %Y}"
