"""The page of the truth suite: numbers from its table, reasons by hand."""

import numpy as np
import pandas as pd

from experiments.markdown import filled, markdown
from experiments.pictures import picture
from experiments.store import Store
from experiments.truth.render import MISTAKE, PICTURES, PILU, family
from experiments.truth.scores import OPEN, REFUTED, TABLE

__all__ = ["PICTURES", "page"]

REFERENCES = {
    "pilu, exact": "learning without the row, then the same noisy steps",
    "pilu, exact, stationary": "the same, learning by one draw",
    "pilu, Theorem 1": "learning without the row, then the same noisy steps",
    "pilu, Theorem 1, reverse": "the same, the other direction",
    "pilu, logistic": "learning without the row, then the same noisy steps",
    "pilu, redraw": "learning without the row",
    "pilu, refit": "a refit without the row from a cold start, same noise",
    "pilu, refit, solvers 2b apart": "the same, with the worst solvers allowed",
    "pilu, Newton step, output noise": "the retained minimiser, same noise",
    "pilu, Newton step after T steps": "the retained perturbed minimiser",
    "pilu, Descent-to-Delete": "T steps without the row, same noise",
    "certified removal, ridge minimiser": "the retained perturbed minimiser",
    "certified removal, fixed residual": "the retained perturbed minimiser",
    "certified removal after T steps, bound": "the retained perturbed minimiser",
    "certified removal after T steps, sharp bound": "the retained perturbed minimiser",
    "certified removal after T steps, measured": "the retained perturbed minimiser",
    "certified removal, worst-case bound": "the retained perturbed minimiser",
    "certified removal, data-dependent budget": "the retained perturbed minimiser",
    "certified removal, budget, retrained anew": "the retained perturbed minimiser",
    "Theorem 3's claim for a solver of ours": "the retained perturbed minimiser",
    "Langevin unlearning": "converged learning, the row replaced",
    "Langevin unlearning, T steps": "T steps, the row replaced",
    "Langevin unlearning, no projection": "converged learning, the row replaced",
    "Descent-to-Delete, secret state": "T steps without the row, same noise",
    "Descent-to-Delete, secret state, T steps": "T steps without the row, same noise",
    "Descent-to-Delete, published state": "T steps without the row, same noise",
    "wrong sign, ridge minimiser": "the retained perturbed minimiser",
    "wrong sign, data-dependent bound": "the retained perturbed minimiser",
    "does nothing": "learning without the row",
}

REASONS = {
    "certified removal, fixed residual": """Theorem 3 as stated has no limit on epsilon. It turns a
shift of the perturbation into epsilon by the classical lemma for Gaussian noise, which is proved
for epsilon below 1. Far above 1 that conversion is too small. The mechanism here is the simplest
one that meets the theorem, a residual of constant length. The claims of 0.1 and 1 hold.""",
    "certified removal after T steps, measured": """The rule is used before learning has converged,
with the median of measured residuals as its bound. Half of the runs have a longer residual. The
residual also depends on the perturbation b, so it changes b's covariance and not only its mean. The
paper of certified removal does not claim this case.""",
    "certified removal, data-dependent budget": """Theorem 3 asks for one bound for every b, and
this bound depends on b. Half of the draws pass the budget here. Then the minimiser for the same b
is released, else a Newton step. Where the one takes over from the other, both miss parameters that
retraining reaches with a probability above delta.""",
    "certified removal, budget, retrained anew": """The same, but past the budget b is drawn anew.
Then no parameter is missed. Those short of the budget become more likely than in retraining, and
the others less so: by a factor of two where half of the draws pass it, which is epsilon = 0.69.""",
    "Theorem 3's claim for a solver of ours": """This says nothing against the paper, which takes a
Newton step. It says that a bound on the gradient that remains is not enough. The gradient here is
never longer than the bound, but it depends on b, and Theorem 3 treats it as a shift of b. The
solver was chosen to make that visible: it stays at zero wherever the gradient there is short
enough, and anyone can recognise a zero.""",
    "wrong sign, ridge minimiser": """The row's gradient is subtracted where it has to be added. The
bound on the residual does not look at the sign, so the claim stays epsilon = 0.""",
    "wrong sign, data-dependent bound": """The same slip for logistic regression. The
data-dependent bound squares the step, so it cannot notice the sign either.""",
    "does nothing": """What was learned is released unchanged. Where the claim is not refuted, the
noise of learning alone is already enough for the epsilon that is claimed.""",
}

EXAMPLE = '''import math

import numpy as np

from experiments.truth import Claim, Gaussian, score
from experiments.truth.problems import problems


class OutputNoise:
    """Keep the minimiser that saw the row, and release it with noise."""

    name, cite = "output noise", "the classical Gaussian mechanism"

    def run(self, problem, epsilon):
        with_row, without = problem.minimiser(), problem.left.minimiser()
        c = math.sqrt(2 * math.log(1.25 / problem.delta))
        sigma = c * np.linalg.norm(with_row - without) / epsilon
        laws = (Gaussian.isotropic(end, sigma) for end in (with_row, without))
        return Claim(epsilon, problem.delta, *laws)


table = score([OutputNoise()], problems("quick"), epsilons=(1.0, 10.0))
print(table[["problem", "setting", "claimed", "lower", "verdict"]])
'''


def page(store: Store) -> str:
    table = store.read(TABLE)
    n_problems = len(store.provenance(TABLE)["config"]["settings"])
    parts = (
        introduction(n_problems),
        "## What was found\n",
        found(table),
        summary(table),
        "## What was refuted, and why\n",
        refuted(table),
        "## What follows for pilu\n",
        for_pilu(table),
        "## How the truth is computed\n",
        about_truth(),
        "## Score your own certificate\n",
        own(),
    )
    return "\n".join(around_code(part) for part in parts)


def around_code(part: str) -> str:
    """Paragraphs filled; the code of an example as it is."""
    text, *code = part.partition("```python\n")
    return filled(text) + "".join(code)


def introduction(n_problems: int) -> str:
    return f"""# Certificates scored where the truth is known

A certificate claims an epsilon. On small problems with normal noise, or with one parameter, the
true epsilon can be computed, so the claim can be checked. `experiments/truth` does that for any
method. It has {n_problems} problems: ridge and logistic regression, with few and many steps, an
outlier, a bad condition number, weak and strong penalties.

A method states its claim and the two laws that it is about: that of what it releases, and that of
the reference it names. `python -m experiments.truth` scores every method, in a minute or two.
Nothing that computes the truth comes from pilu, so pilu is judged as a stranger is. Of pilu, the
adapters take noise, epsilon and solutions. Formulas of other methods are written from their papers,
and no code was copied.
"""


def found(table: pd.DataFrame) -> str:
    inside, outside = table["outside"].isna(), table["outside"].notna()
    falls = table["verdict"].str.contains(REFUTED)
    mistakes = table["cite"] == MISTAKE
    shown = picture(PICTURES[0], "Claimed over true epsilon, one line a method; false left of 1")
    return f"""{shown}
Each mark is one claim, on one problem, at an epsilon of 0.1, 1 or 10 where the method lets one
choose. There are {len(table):,} claims. Inside of the method's own assumptions,
{_count(falls & inside & ~mistakes, "claim")} {_were(falls & inside & ~mistakes)} refuted
({by_method(table[falls & inside & ~mistakes])}), and outside of them
{_count(falls & outside, "claim")}. Of the {_count(mistakes, "claim")} that are
wrong on purpose, {int((falls & mistakes).sum())} {_were(falls & mistakes)} refuted.

A mark says nothing about accuracy: a loose claim may come with little noise, and a tight one with
much. "Outside of its assumptions" means that the problem lacks what the method's own theorem asks
for. A refuted claim there says nothing against the theorem.
"""


def by_method(falls: pd.DataFrame) -> str:
    """Which methods' claims fall, and at which least epsilon."""
    least = falls.groupby("adapter", sort=False)["claimed"].min()
    return "; ".join(f"{name}, at epsilon = {value:g}" for name, value in least.items()) or "none"


def _count(which: pd.Series, noun: str) -> str:
    n = int(which.sum())
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _were(which: pd.Series) -> str:
    return "was" if which.sum() == 1 else "were"


def summary(table: pd.DataFrame) -> str:
    lines = []
    for method, claims in table.groupby("adapter", sort=False):
        falls = claims["verdict"].str.contains(REFUTED)
        outside = int(claims["outside"].notna().sum())
        stands = claims[~falls]["factor"]
        lines.append(
            [
                method,
                f"{len(claims)}" + (f" ({outside})" if outside else ""),
                int(falls.sum()) or "",
                _factor(stands.median(), claims),
                _factor(stands.max(), claims),
                REFERENCES.get(str(method), ""),
                claims["cite"].iloc[0],
            ]
        )
    header = [
        "method",
        "claims (outside)",
        "refuted",
        "claimed / true, median",
        "loosest",
        "compares with",
        "source",
    ]
    return f"""Claims outside of the method's assumptions are counted in brackets. The factors are
of claims that stand. "True: 0" means that the two laws are so near that delta alone covers the
difference; then any claim is infinitely loose.

{markdown(header, lines)}"""


def _factor(factor: float, claims: pd.DataFrame) -> str:
    if np.isnan(factor):
        return ""
    if (claims["verdict"] == OPEN).all():
        return "unknown"  # runs bound the truth from below only
    return number(factor) if factor < np.inf else "true: 0"


def number(value: float) -> str:
    """Three digits, without exponents where it is large."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def refuted(table: pd.DataFrame) -> str:
    parts = []
    for method, claims in table.groupby("adapter", sort=False):
        falls = claims[claims["verdict"].str.contains(REFUTED)]
        if len(falls):
            parts.append(_refuted(str(method), claims, falls))
    return "\n\n".join(parts) + "\n" if parts else "Nothing was refuted.\n"


def _refuted(method: str, claims: pd.DataFrame, falls: pd.DataFrame) -> str:
    worst = falls.loc[falls["factor"].idxmax()]
    named = f"{worst['problem']}, {worst['setting']}, delta = {worst['delta']:g}"
    where = " Outside of its assumptions." if falls["outside"].notna().all() else ""
    if family(claims, method) == MISTAKE:
        where = " Wrong on purpose."
    return f"""**{method[0].upper()}{method[1:]}**: {len(falls)} of {len(claims)} claims.{where} At
worst it claims {number(worst["claimed"])} where the truth is at least {number(worst["lower"])}
({named}).
{REASONS[method]}"""


def for_pilu(table: pd.DataFrame) -> str:
    own_claims = table[table["adapter"].str.startswith(PILU)]
    falls = own_claims["verdict"].str.contains(REFUTED)
    verdict = (
        f"**No certificate of pilu is refuted**, in {len(own_claims):,} claims."
        if not falls.any()
        else f"**{_count(falls, 'certificate')} of pilu {_were(falls)} refuted**: "
        + "; ".join(sorted(set(own_claims[falls]["adapter"])))
        + "."
    )
    exact = own_claims[own_claims["adapter"].str.startswith("pilu, exact")]
    theorem = own_claims[own_claims["adapter"] == "pilu, Theorem 1"]["factor"]
    width = ((exact["upper"] - exact["lower"]) / exact["upper"]).max()
    says = [
        [
            "exact",
            f"the truth to 0.1 % in {(exact['factor'] < 1.001).mean():.0%} of the claims, and "
            f"never more than {exact['factor'].max():.3g} times it",
        ],
        [
            "Theorem 1",
            f"at least {theorem.min():.2g} times the truth; in {np.isinf(theorem).sum()} of "
            f"{len(theorem)} claims the truth is 0",
        ],
        [
            "logistic regression",
            "as loose as Theorem 1; nearest to the truth where no noise has to be added",
        ],
        [
            "refit",
            "loose, because solvers end far nearer to each other than is proved; with solvers as "
            "far apart as the proof allows, the claim is the truth",
        ],
        [
            "redraw",
            "300 runs cannot be told from retraining; runs bound the truth from below only, so "
            "this is no proof",
        ],
    ]
    return f"""{verdict} How loose they are differs:

{markdown(["certificate", "claim and truth"], says)}
The true epsilon is an interval, and a claim falls only to its lower end. A claim that equals the
truth can therefore be off by the width of the interval, at most {width:.2%} of it for pilu's exact
accountant. The suite has no large problem, and its laws are those of real numbers, not of floating
point. It can refute claims. It proves none.
"""


def about_truth() -> str:
    table = markdown(
        ["laws", "how", "what the bounds are"],
        [
            ["normal, any p", "the log-ratio on a lattice, by convolution", "proved, both sides"],
            ["one parameter", "noisy steps on a grid", "estimated from half as many cells"],
            [
                "runs only",
                "one set, chosen on half of the runs",
                "a lower one, 99 % confidence",
            ],
        ],
    )
    return f"""The true epsilon at delta is the least epsilon for which P(S) <= e^epsilon Q(S) +
delta for every set S. "Both" directions ask the same with P and Q exchanged, and the worse of both
is compared with the claim.

{table}
A method that is calibrated exactly claims the truth itself, and no true claim is smaller. A claim
that lies below the truth by less than the accuracy of the truth is not refuted.
"""


def own() -> str:
    return f"""An adapter has a name, a source and `run`, which gets a problem and the epsilon that
is wished for. It returns a claim and both laws: `Gaussian`, `Bins` (one parameter) or `Draws`
(runs). It raises `NotCovered` where the method does not apply. `unmet` lists assumptions of the
method that the problem does not meet. This one adds noise by the classical formula for the Gaussian
mechanism. Run it from the root of the repository:

```python
{EXAMPLE}```

At epsilon = 1 its claims are true but loose. At 10 they are refuted: the classical formula is
proved for epsilon below 1 only, and needs more noise there.
"""
