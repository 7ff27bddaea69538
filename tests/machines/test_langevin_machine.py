"""`LangevinRidge` by any calls in any order, against a chain of dense laws kept beside it."""

import pickle

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scipy.stats import chi2

from machines.profile import few_and_many, numbers_within, run
from pilu import AlreadyForgotten, LangevinRidge, verify
from pilu.desk.release import check_release, release_record
from pilu.exceptions import CertificateMismatch, RowsNotAttached

pytestmark = pytest.mark.filterwarnings("ignore::pilu.exceptions.PartOfPersonWarning")

N, ALPHA, NOISE = 14, 0.5, 0.4
FAR = 1e-9  # a false alarm of the parameters' law


class World:
    """The law of the parameters, by plain arithmetic: mean and covariance, step by step."""

    def __init__(self, X, y, step_size, n_steps):
        self.X, self.y = np.column_stack([X, np.ones(N)]), y
        self.step_size, self.n_steps = step_size, n_steps

    def learned(self, rows):
        if self.n_steps is not None:
            start = np.zeros(3), np.zeros((3, 3))
            return self.after(start, rows, self.n_steps, NOISE)
        A = self.X[rows].T @ self.X[rows] + ALPHA * np.eye(3)
        M = np.eye(3) - self.step_size * A  # the covariance S of M S M' + 2 eta sigma^2 I = S
        spread = 2 * self.step_size * NOISE**2 * np.linalg.inv(np.eye(3) - M @ M)
        return np.linalg.solve(A, self.X[rows].T @ self.y[rows]), spread

    def after(self, law, rows, steps, noise):
        mean, spread = law
        M = np.eye(3) - self.step_size * (self.X[rows].T @ self.X[rows] + ALPHA * np.eye(3))
        for _ in range(steps):
            mean = M @ mean + self.step_size * self.X[rows].T @ self.y[rows]
            spread = M @ spread @ M.T + 2 * self.step_size * noise**2 * np.eye(3)
        return mean, spread


def log_density(law, z):
    mean, spread = law
    factor = np.linalg.cholesky(spread)
    white = np.linalg.solve(factor, (z - mean).T)
    return -(white**2).sum(axis=0) / 2 - np.log(np.diag(factor)).sum()


def simulated_delta(P, Q, epsilon, draws=20_000):
    """E_P max(0, 1 - e^epsilon Q/P), and five standard errors of it."""
    z = np.random.default_rng(0).multivariate_normal(*P, size=draws)
    gains = np.maximum(0.0, -np.expm1(epsilon + log_density(Q, z) - log_density(P, z)))
    return gains.mean(), 5 * gains.std() / np.sqrt(draws)


class LangevinMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**16), n_steps=st.sampled_from([6, 25, None]))
    def fit(self, seed, n_steps):
        rng = np.random.default_rng(seed)
        self.rng, self.X, self.y = rng, rng.normal(size=(N, 2)), rng.normal(size=N)
        self.ids = [f"name-of-row-{i:02}" for i in range(N)]
        self.people = [f"person-{i // 2}-of-some" for i in range(N)]
        X = np.column_stack([self.X, np.ones(N)])
        # Half of 1/L: steps without noise leave the oracle's covariance invertible.
        how = {"step_size": 0.5 / (np.linalg.norm(X, 2) ** 2 + ALPHA), "random_state": seed}
        self.model = LangevinRidge(ALPHA, n_steps=n_steps, noise=NOISE, **how)
        self.model.fit(self.X, self.y, sample_ids=self.ids, subjects=self.people)
        self.world = World(self.X, self.y, self.model.step_size_, n_steps)
        self.left, self.segments, self.since = list(range(N)), [], list(range(N))
        self.certificates, self.epsilons = [], []

    @property
    def theta(self):
        return np.append(self.model.coef_, self.model.intercept_)

    @property
    def gone(self):
        return [i for i in range(N) if i not in self.left]

    def law(self, *, without=()):
        """The law now; `without` rows that it is compared with never having had."""
        kept = [i for i in self.since if i not in without]
        law = self.world.learned(kept)
        for rows, steps, noise in self.segments:
            law = self.world.after(law, [i for i in rows if i not in without], steps, noise)
        return law

    def chosen(self, how, number):
        """A request of one or two rows or people who are still there, and its rows."""
        rows = sorted(
            {self.left[number % len(self.left)], self.left[(number // 7) % len(self.left)]}
        )
        if how == "rows":
            return {"rows": rows}, rows
        if how == "ids":
            return {"ids": [self.ids[i] for i in rows]}, rows
        people = list(dict.fromkeys(self.people[i] for i in rows))
        return {"subjects": people}, [i for i in self.left if self.people[i] in people]

    def done(self, certificate, rows):
        assert certificate.rows == tuple(rows)
        assert certificate.total_epsilon == self.model.total_[0]
        assert certificate.total_delta == self.model.total_[1]
        self.left = [i for i in self.left if i not in rows]
        self.certificates.append(certificate)

    @precondition(lambda self: len(self.left) > 6)
    @rule(
        how=st.sampled_from(["rows", "ids", "subjects"]),
        number=st.integers(0, 10**4),
        epsilon=st.sampled_from([0.3, 1.0, 3.0]),
        delta=st.sampled_from([0.02, 0.1]),
        steps=st.integers(1, 6),
        accountant=st.sampled_from(["exact", "exact", "theorem"]),
    )
    def unlearn(self, how, number, epsilon, delta, steps, accountant):
        request, rows = self.chosen(how, number)
        asked = {"epsilon": epsilon, "delta": delta, "n_unlearn_steps": steps}
        if self.world.n_steps is None:
            accountant = "exact"
        before = self.theta
        quoted = self.model.quote([rows], accountant=accountant, **asked)
        assert (self.theta == before).all()
        known = self.law(without=self.gone)
        other = self.law(without=[*self.gone, *rows])
        certificate = self.model.unlearn(**request, accountant=accountant, **asked)
        assert certificate.noise == quoted.noise[0]
        assert certificate.epsilon == quoted.epsilon[0] <= epsilon
        self.done(certificate, rows)
        self.epsilons.append(certificate.epsilon)
        self.segments.append((list(self.left), steps, certificate.noise))
        # Definition 1 for this request: those before it are as if never seen.
        P, Q = (
            self.world.after(law, self.left, steps, certificate.noise) for law in (known, other)
        )
        found, error = simulated_delta(P, Q, certificate.epsilon)
        assert found - error <= certificate.delta
        # and for all of them since the last redraw
        found, error = simulated_delta(
            self.law(), self.law(without=self.gone), certificate.total_epsilon
        )
        assert found - error <= certificate.total_delta
        assert certificate.total_epsilon >= sum(self.epsilons) * (1 - 1e-15)

    @precondition(lambda self: len(self.left) > 6)
    @rule(also=st.booleans(), number=st.integers(0, 10**4))
    def redraw(self, also, number):
        request, rows = self.chosen("rows", number) if also else ({}, [])
        certificate = self.model.unlearn(**request, method="redraw")
        self.done(certificate, rows)
        assert (certificate.epsilon, certificate.delta, *self.model.total_) == (0, 0, 0, 0)
        self.since, self.segments, self.epsilons = list(self.left), [], []

    @rule(all_rows=st.booleans())
    def pickle_and_attach(self, all_rows):
        before = self.theta
        self.model = pickle.loads(pickle.dumps(self.model))
        assert (self.theta == before).all()
        with pytest.raises(RowsNotAttached):
            self.model.unlearn(self.left[0])
        X, y = self.X.copy(), self.y.copy()
        X[self.gone] = np.nan  # values of forgotten rows are not looked at
        rows = list(range(N)) if all_rows else self.left
        self.model.attach(X[rows], y[rows])

    @precondition(lambda self: self.certificates)
    @rule()
    def verify_now_and_before(self):
        *earlier, last = self.certificates
        assert verify(last)["epsilon_recomputed"]
        assert self.model.verify(last)["issuer_checked"]
        for one in earlier[-2:]:
            assert verify(one)["total_recomputed"]
            with pytest.raises(CertificateMismatch):
                self.model.verify(one)

    @precondition(lambda self: len(self.left) < N)
    @rule(number=st.integers(0, 10**4))
    def ask_for_the_forgotten(self, number):
        i = self.gone[number % len(self.gone)]
        before, there = self.theta, self.left[0]
        requests = [{"rows": [i, there]}, {"ids": self.ids[i]}]
        if all(self.people[k] != self.people[i] for k in self.left):
            requests.append({"subjects": [self.people[i], self.people[there]]})
        for request in requests:
            with pytest.raises(AlreadyForgotten):
                self.model.unlearn(**request)
        assert (self.theta == before).all()

    @rule()
    def release(self):
        record = release_record(self.model, ["a", "b"], None)
        assert check_release(record, None)["hash_is_that_of_the_coefficients"]
        found = np.append(np.ravel(record["coefficients"]), record["intercept"])
        assert (np.abs(found - self.theta) <= record["grid"] / 2).all()
        assert record["grid"] < np.sqrt(np.linalg.eigvalsh(self.law()[1])[0]) / 500

    @invariant()
    def the_model_is_that_of_the_rows_that_are_left(self):
        if not hasattr(self, "model"):
            return
        assert self.model.remaining_.tolist() == self.left
        mean, spread = self.law()
        away = self.theta - mean
        assert away @ np.linalg.solve(spread, away) < chi2.isf(FAR, 3)

    @invariant()
    def no_pickle_holds_the_forgotten(self):
        if not hasattr(self, "model"):
            return
        content = pickle.dumps(self.model)
        values = [*self.X[self.gone].ravel(), *self.y[self.gone]]
        assert not numbers_within(content, values)
        there = {self.people[i] for i in self.left}
        names = [self.ids[i] for i in self.gone] + [p for p in self.people if p not in there]
        assert not any(name.encode() in content for name in names)
        assert self.ids[self.left[0]].encode() in content  # names that stay are found
        assert numbers_within(content, self.theta[:1])


@few_and_many
def test_langevin_ridge_by_any_calls(examples):
    run(LangevinMachine, examples)
