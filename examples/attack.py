"""Who was deleted? Solve for a deleted row, from releases without and with a cap on exposure.

A minimiser makes the gradients of all its rows sum to zero. So at the model before a deletion, the
rows that are left have a gradient, and it is that of the deleted row with the other sign:

    -grad F'(theta) = z (p - y)',     F' the objective of the rows that are left,     z = (x, 1),

a matrix of rank one. Its column is the row, and its last entry says how long the row is. For ridge
the left side is A'(theta' - theta), so both models and A' = Z'Z + alpha will do (Bertran et al.
2024, "Reconstruction attacks on machine unlearning: simple models are vulnerable").

The strong attacker here has all rows but the deleted one, and knows the law of the noise. A
certificate must withstand this one. The weak attacker has both models and a public sample.
"""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.optimize import least_squares
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pilu import Forgetful
from pilu.datasets import make_customers

Array = NDArray[np.float64]
EPSILON, DELTA = 1.0, 1e-5

# The attacks. theta is P x K, the intercept last; rows Z end with a one; penalty has P entries.


def identity(scores: Array) -> Array:
    return scores


def probabilities(scores: Array) -> Array:
    return softmax(scores, axis=1)


def left_over(theta: Array, Z: Array, Y: Array, penalty: Array, link: Callable) -> Array:
    """Minus the gradient of the rows that are left: z (p - y)' of a row that theta knew."""
    return -(Z.T @ (link(Z @ theta) - Y) + penalty[:, None] * theta)


def from_both(before: Array, after: Array, H: Array) -> Array:
    """The same from both models: H (after - before), exact for ridge, where H is A' for each k."""
    return np.einsum("apbq,qb->pa", H, after - before)


def row_of(matrix: Array) -> Array:
    """The row x in a matrix (x, 1) r'."""
    column = np.linalg.svd(matrix, full_matrices=False)[0][:, 0]
    return column[:-1] / column[-1]


def target_of(matrix: Array, theta: Array, link: Callable) -> Array:
    """The row's target y: its residual p - y is the last line of the matrix (x, 1) r'."""
    return link(np.append(row_of(matrix), 1.0)[None] @ theta)[0] - matrix[-1]


def row_from_means(before: Array, after: Array, n_before: int) -> Array:
    """The row, from the column means that a scaler keeps."""
    return n_before * before - (n_before - 1) * after


def hessian(theta: Array, Z: Array, penalty: Array, link: Callable) -> Array:
    """The Hessian of the objective, K x P x K x P."""
    P, K = theta.shape
    H = np.zeros((K, P, K, P))
    p = link(Z @ theta)
    for a in range(K):
        for b in range(K):
            same = float(a == b)
            c = np.full(len(Z), same) if link is identity else p[:, a] * (same - p[:, b])
            H[a, :, b, :] = (Z * c[:, None]).T @ Z + same * np.diag(penalty)
    return H


def whitening(H: Array, covariance: Array) -> Array:
    """Makes the noise in `left_over` white: H N, where each column of N has this covariance."""
    K, P = H.shape[:2]
    back = np.linalg.pinv(H.reshape(K * P, K * P), hermitian=True)  # softmax: shifts do nothing
    root = np.linalg.cholesky(np.linalg.inv(covariance)).T
    return (np.kron(np.eye(K), root) @ back).reshape(K * P, K, P)


def likeliest_row(matrix: Array, whiten: Array, rows: Array, residuals: Array) -> Array:
    """The likeliest x in (x, 1) r' + noise, if x and r are like other rows and their residuals."""
    p, K = len(matrix) - 1, matrix.shape[1]
    mean, spread = rows.mean(axis=0), np.cov(rows.T)
    usual = np.linalg.inv(spread + 1e-3 * np.trace(spread) / p * np.eye(p))
    usual_row, usual_size = np.linalg.cholesky(usual).T, np.sqrt((residuals**2).mean())

    def misfit(v: Array) -> Array:
        x, r = v[:p], v[p:]
        off = whiten.reshape(len(whiten), -1) @ (matrix.T - np.outer(r, [*x, 1.0])).ravel()
        return np.concatenate([off, usual_row @ (x - mean), r / usual_size])

    def slopes(v: Array) -> Array:
        by_row = -np.einsum("map,a->mp", whiten[:, :, :p], v[p:])
        by_residual = -whiten @ np.append(v[:p], 1.0)
        priors = block_diag(usual_row, np.eye(K) / usual_size)
        return np.vstack([np.hstack([by_row, by_residual]), priors])

    found, plain = [], row_of(matrix)
    for x in (mean, plain, 2 * mean - plain):  # the last has r with the other sign
        start = np.append(x, np.zeros(K))
        start[p:] = -np.linalg.lstsq(slopes(start)[:, p:], misfit(start), rcond=None)[0]
        found.append(least_squares(misfit, start, slopes, method="lm", xtol=1e-12, ftol=1e-12))
    return min(found, key=lambda one: one.cost).x[:p]


def likeness(guess: Array, row: Array, mean: Array) -> float:
    """Cosine between what is special about the guess and about the row: 1 is the row itself."""
    a, b = guess - mean, row - mean
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / lengths if lengths else 0.0


def best_accuracy(epsilon: float, delta: float) -> float:
    """No test tells two equally likely worlds apart more often than this.

    A test says "it was there" at a rate t if it was, and f if it was not. With e = e^epsilon,
    t <= e f + delta and 1 - f <= e (1 - t) + delta. The sum of both gives
    t - f <= (e - 1 + 2 delta)/(e + 1), and the test is right at a rate of (1 + t - f)/2.
    """
    return 0.5 + 0.5 * (math.expm1(epsilon) + 2 * delta) / (math.exp(epsilon) + 1)


def says_it_was_there(releases: Array, with_row: Array, without: Array, covariance: Array) -> Any:
    """Guess for each release whether the row was learned: which of two known laws is nearer?"""
    towards = np.linalg.solve(covariance, with_row - without)
    return (releases - (with_row + without) / 2) @ towards > 0


# The tables.


class Study(NamedTuple):
    name: str
    X: Array  # fixed scales and categories: nothing in it was learned from the rows
    y: NDArray[Any]
    Y: Array
    public: Array
    head: Any
    alpha: float
    link: Callable

    @property
    def penalty(self) -> Array:
        return np.append(np.full(self.X.shape[1], self.alpha), 0.0)

    def fit(self, model: Any, without: Any = (), seed: int | None = None) -> Array:
        """Parameters of a model fitted on all rows, or on all but one."""
        model = clone(model) if seed is None else clone(model).set_params(random_state=seed)
        keep = np.delete(np.arange(len(self.X)), without)
        fitted = model.fit(self.X[keep], self.y[keep])
        return np.vstack([np.atleast_2d(fitted.coef_).T, np.atleast_1d(fitted.intercept_)])


def with_ones(X: Array) -> Array:
    return np.hstack([X, np.ones((len(X), 1))])


LOGISTIC = LogisticRegression(solver="newton-cholesky", tol=1e-12)


def digits(head: Any, link: Callable) -> Study:
    X, y = load_digits(return_X_y=True)
    one_hot = np.eye(10)[y[:1400]]
    name = "digits, ridge" if link is identity else "digits, softmax"
    targets = one_hot if link is identity else y[:1400]
    return Study(name, X[:1400] / 16, targets, one_hot, X[1400:] / 16, head, 1.0, link)


def diabetes() -> Study:
    X, y = load_diabetes(return_X_y=True)
    head = Ridge(alpha=0.1, solver="cholesky")
    return Study("diabetes, ridge", X[:350], y[:350], y[:350, None], X[350:], head, 0.1, identity)


# Centres and scales that anybody could have guessed; a missing value becomes the centre.
SCALES = {
    "tenure": (30, 25),
    "monthly": (35, 10),
    "total": (1000, 1000),
    "usage": (30, 40),
    "calls": (6, 8),
    "data": (30, 40),
    "age": (45, 15),
    "income": (34_000, 18_000),
    "late": (1, 1),
    "tickets": (1, 1),
}


def customers(n_public: int = 1_000) -> tuple[Study, list[slice], Any]:
    """The study, where each category's columns are, and the table of those who were learned."""
    table = make_customers(5_000)
    numbers = [(table.X[c].fillna(m) - m) / s for c, (m, s) in SCALES.items()]
    columns = [np.column_stack(numbers)]
    places, start = [], len(numbers)
    for category in table.categories:
        names = sorted(set(table.X[category]))  # public: what the form offers
        columns.append((table.X[category].to_numpy()[:, None] == names).astype(float))
        places.append(slice(start, start + len(names)))
        start += len(names)
    X, stayed = np.hstack(columns), (table.y == "stayed")[:, None].astype(float)
    learned = slice(n_public, None)
    study = Study(
        "customers, logistic",
        X[learned],
        table.y[learned],
        stayed[learned],
        X[:n_public],
        LOGISTIC,
        1.0,
        expit,
    )
    return study, places, table.X[learned]


# The trial.

EXACT, WEAK = "exact models", "exact models, weak attacker"
DEFAULT, CAPPED = "default releases", f"releases with exposure {EPSILON:g}"
NEVER = "fitted without the row"  # and with exposure 1: what the attacker finds in noise


def forgetting(study: Study) -> dict[str, Any]:
    capped = Forgetful(study.head, max_exposure=EPSILON, exposure_delta=DELTA)
    return {DEFAULT: Forgetful(study.head), CAPPED: capped}


def noise_of(releases: Array, centre: Array) -> Array:
    """Covariance of a release's columns: whoever has the rows can draw releases, too."""
    noise = (releases - centre).transpose(0, 2, 1).reshape(-1, len(centre))
    return noise.T @ noise / len(noise)


def capped_noise(study: Study) -> tuple[float, Array, Array]:
    """s^2, kappa Z'Z and f diag(d) of a release with a cap: its noise is N(0, s^2 A^-1)."""
    model = forgetting(study)[CAPPED].fit(study.X, study.y)
    Z, K = with_ones(study.X), study.Y.shape[1]
    kappa = 1.0 if study.link is identity else 0.25 if K == 1 else 0.5
    return model.noise_scale_**2, kappa * Z.T @ Z, model.noise_penalty_ * np.diag(study.penalty)


def drawn(centre: Array, covariance: Array, n: int, seed: int) -> Array:
    """Releases of a law, with independent noise for each output."""
    normal = np.random.default_rng(seed).standard_normal((n, *centre.shape))
    return centre + np.linalg.cholesky(covariance) @ normal


def attacked(study: Study, rows: NDArray[np.intp]) -> dict[str, Array]:
    """What each attack finds for each deleted row."""
    Z, public = with_ones(study.X), with_ones(study.public)
    penalty, link = study.penalty, study.link
    P, K = Z.shape[1], study.Y.shape[1]
    exact = study.fit(study.head)
    size, gram, fixed = capped_noise(study)
    n_draws = max(len(rows), 8 * P // K)
    plain = forgetting(study)[DEFAULT]
    draws = {DEFAULT: np.array([study.fit(plain, seed=seed) for seed in range(n_draws)])}
    noise = {DEFAULT: noise_of(draws[DEFAULT], exact), CAPPED: size * np.linalg.inv(gram + fixed)}
    draws[CAPPED] = drawn(exact, noise[CAPPED], len(rows), seed=0)
    found: dict[str, list[Array]] = {n: [] for n in (EXACT, WEAK, DEFAULT, CAPPED, NEVER)}
    for j, row in enumerate(rows):
        left, Y = np.delete(Z, row, axis=0), np.delete(study.Y, row, axis=0)
        found[EXACT].append(row_of(left_over(exact, left, Y, penalty, link)))
        after = study.fit(study.head, without=row)
        H = hessian(after, public, penalty * len(public) / len(left), link)
        found[WEAK].append(row_of(from_both(exact, after, H)))
        H = hessian(after, left, penalty, link)
        residuals = link(left @ after) - Y
        kappa = gram[-1, -1] / len(Z)
        shape = gram - kappa * np.outer(Z[row], Z[row]) + fixed
        unseen = drawn(after, size * np.linalg.inv(shape), 1, seed=1 + j)[0]
        for name, law, theta in (
            (DEFAULT, DEFAULT, draws[DEFAULT][j]),
            (CAPPED, CAPPED, draws[CAPPED][j]),
            (NEVER, CAPPED, unseen),
        ):
            seen = left_over(theta, left, Y, penalty, link)
            whiten = whitening(H, noise[law])
            found[name].append(likeliest_row(seen, whiten, left[:, :-1], residuals))
    return {name: np.array(guesses) for name, guesses in found.items()}


def report(study: Study, rows: NDArray[np.intp], found: dict[str, Array]) -> None:
    print(f"\n{study.name}: {len(rows)} deletions of one row among {len(study.X)}")
    print(f"{'':30}{'likeness':>10}{'found':>10}{'error':>10}")
    X, n = study.X[rows], len(study.X)
    means = (n * study.X.mean(axis=0) - X) / (n - 1)  # of the rows that are left
    for name, guesses in found.items():
        alike = np.array([likeness(*three) for three in zip(guesses, X, means, strict=True)])
        errors = np.linalg.norm(guesses - X, axis=1) / np.linalg.norm(X - means, axis=1)
        share, error = np.mean(alike > 0.9), np.median(errors)
        print(f"{name:30}{np.median(alike):10.2f}{share:>10.0%}{error:>10.1g}")


def report_targets(study: Study, rows: NDArray[np.intp]) -> None:
    Z, exact, off = with_ones(study.X), study.fit(study.head), 0.0
    for row in rows:
        left, Y = np.delete(Z, row, axis=0), np.delete(study.Y, row, axis=0)
        target = target_of(left_over(exact, left, Y, study.penalty, study.link), exact, study.link)
        off = max(off, float(np.abs(target - study.Y[row]).max()))
    print(f"Exact models also give y back, within {off:.0e}.")


def report_people(study: Study, rows: Any, found: Any, places: list[slice], table: Any) -> None:
    ages = table["age"].to_numpy()[rows]
    known = ~np.isnan(ages)
    centre, scale = SCALES["age"]
    print(f"{'':30}{'age within a year':>20}{'all five categories':>22}{'one category':>15}")
    for name, guesses in found.items():
        years = guesses[known, list(SCALES).index("age")] * scale + centre
        right = np.column_stack(
            [guesses[:, p].argmax(axis=1) == study.X[rows][:, p].argmax(axis=1) for p in places]
        )
        near = np.mean(np.abs(years - ages[known]) < 1)
        print(f"{name:30}{near:>20.0%}{right.all(axis=1).mean():>22.0%}{right.mean():>15.0%}")


def membership(study: Study, n_draws: int) -> None:
    """Was a row learned? Releases with it and without it, and a test that knows both laws."""
    Z = with_ones(study.X)
    exact = study.fit(study.head)
    A = Z.T @ Z + np.diag(study.penalty)
    h = np.einsum("ij,ij->i", Z, np.linalg.solve(A, Z.T).T)
    shift = np.abs(study.Y - Z @ exact)[:, 0] * np.sqrt(h / (1 - h))
    row = int(np.argsort(shift)[-10])  # the first ones may set the size of the noise itself
    without = study.fit(study.head, without=row)
    print(f"\n{study.name}: was row {row} learned? {n_draws} releases with it, as many without")
    model, (size, gram, fixed) = forgetting(study)[DEFAULT], capped_noise(study)
    left = gram - np.outer(Z[row], Z[row])
    releases = {
        DEFAULT: (
            np.array([study.fit(model, seed=j) for j in range(n_draws)]),
            np.array([study.fit(model, row, seed=10_000 + j) for j in range(n_draws)]),
        ),
        CAPPED: (
            drawn(exact, size * np.linalg.inv(gram + fixed), n_draws, seed=0),
            drawn(without, size * np.linalg.inv(left + fixed), n_draws, seed=1),
        ),
    }
    for name, (there, gone) in releases.items():
        law = (exact[:, 0], without[:, 0], noise_of(there, exact))
        right = says_it_was_there(there[:, :, 0], *law).sum()
        right += (~says_it_was_there(gone[:, :, 0], *law)).sum()
        print(f"{name:30}{right / (2 * n_draws):>10.1%} of the guesses were right")
    print(f"{f'epsilon {EPSILON:g} allows any test':30}{best_accuracy(EPSILON, DELTA):>10.1%}")


def scaler_means(study: Study, row: int) -> None:
    model = Forgetful(make_pipeline(StandardScaler(), clone(study.head))).fit(study.X, study.y)
    before = model.released_[0].mean_
    model.unlearn(rows=[row])
    guess = row_from_means(before, model.released_[0].mean_, len(study.X))
    off = np.abs(guess - study.X[row]).max()
    print(f"\nA scaler needs no attack: its means before and after give the row to {off:.0e}.")


def draw(study: Study, rows: Any, found: dict[str, Array], path: Path, n_images: int = 9) -> None:
    shown = {
        "deleted image": study.X[rows],
        "got back from\nexact models": found[EXACT],
        "from default\nreleases": found[DEFAULT],
        f"from releases with\nexposure {EPSILON:g}": found[CAPPED],
        "from a model fitted\nwithout the image": found[NEVER],
    }
    figure, axes = plt.subplots(len(shown), n_images, figsize=(9.0, 4.6), layout="constrained")
    for line, (name, images) in zip(axes, shown.items(), strict=True):
        for axis, image in zip(line, images[:n_images], strict=True):
            axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_color("#cccccc")
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", labelpad=8)
    figure.suptitle("What the strong attacker gets back (digits, softmax regression)", fontsize=12)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("attack-output"))
    parser.add_argument("--rows", type=int, default=40, help="deletions for each table")
    parser.add_argument("--draws", type=int, default=500, help="releases in the guessing game")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    people, places, table = customers()
    images = digits(LOGISTIC, probabilities)
    print("likeness: cosine to the row, less the mean row; 1 is the row. found: above 0.9.")
    print("error: distance to the row, where the mean row is at 1. Medians.")
    for study in (images, digits(Ridge(solver="cholesky"), identity), diabetes(), people):
        rows = rng.choice(len(study.X), options.rows, replace=False)
        found = attacked(study, rows)
        report(study, rows, found)
        report_targets(study, rows)
        if study is people:
            report_people(study, rows, found, places, table)
        if study is images:
            draw(study, rows, found, options.out / "attack.png")
    membership(diabetes(), options.draws)
    scaler_means(people, row=0)
    print(f"\nwrote {options.out / 'attack.png'}")


if __name__ == "__main__":
    main()
