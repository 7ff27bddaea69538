"""`Forgetful` by any calls in any order, against a plain list of rows and scikit-learn."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from machines.profile import few_and_many, numbers_within, run
from pilu import AlreadyForgotten, Forgetful, verify
from pilu.exceptions import CertificateMismatch, RowsNotAttached, WrongInput

pytestmark = pytest.mark.filterwarnings("ignore::pilu.exceptions.PartOfPersonWarning")

START, LEAST = 40, 28
FAR = 0.02  # of a score; the noise of a typical one is 1e-3
SHAPED = 0.5  # how far shaped noise may move a score
PROGRAMS = {
    "ridge": (lambda: Ridge(alpha=2.0), {}),
    "scaled ridge": (lambda: make_pipeline(StandardScaler(), Ridge()), {}),
    "logistic": (lambda: make_pipeline(StandardScaler(), LogisticRegression()), {}),
    "logistic, shaped noise": (lambda: LogisticRegression(), {"noise_scale": 0.02}),
}


class ForgetfulMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**16), program=st.sampled_from(sorted(PROGRAMS)))
    def fit(self, seed, program):
        self.program, options = PROGRAMS[program]
        self.rng, self.is_labelled = np.random.default_rng(seed), "logistic" in program
        self.shaped = "noise_scale" in options
        self.n_made, self.number = 0, 0
        self.rows, self.gone, self.n_releases = [], [], {}
        new = self.made(START)
        self.model = Forgetful(self.program(), random_state=seed, **options)
        X, y, named = self.given_rows(new)
        self.model.fit(X, y, **named)
        self.learned(new)
        self.certificate, self.earlier = None, []
        self.released()

    # The rows, in plain Python

    def made(self, n, person=None):
        """New rows of new people, two each, or of one person."""
        rows = []
        for _ in range(n):
            x = self.rng.normal(size=2).tolist()
            score = x[0] - x[1] / 2 + self.rng.normal()
            y = ("yes" if score > 0 else "no") if self.is_labelled else score
            number = self.n_made
            rows.append(
                {
                    "id": f"row-number-{number:05}",
                    "person": person or f"some-person-{number // 2:05}",
                    "x": x,
                    "y": y,
                }
            )
            self.n_made += 1
        return rows

    def learned(self, new):
        for row in new:
            self.rows.append({**row, "number": self.number})
            self.number += 1

    def table(self, rows):
        X = pd.DataFrame([row["x"] for row in rows], columns=["a", "b"])
        return X, np.array([row["y"] for row in rows])

    def given_rows(self, rows):
        X, y = self.table(rows)
        names = {"sample_ids": [r["id"] for r in rows], "subjects": [r["person"] for r in rows]}
        return X, y, names

    @property
    def people(self):
        return sorted({row["person"] for row in self.rows})

    def chosen(self, k, most=3):
        """Some rows that are there."""
        picked = np.random.default_rng(k).permutation(len(self.rows))[: 1 + k % most]
        return [self.rows[i] for i in sorted(picked)]

    def released(self):
        """One more release has everybody who is there."""
        self.n_releases = {p: self.n_releases.get(p, 0) + 1 for p in self.people}

    def certified(self, certificate, rows):
        assert certificate.rows == tuple(sorted(rows))
        assert certificate.evidence["n_rows"] == len(self.rows)
        assert (certificate.epsilon, certificate.delta) == (0.1, 1e-9)
        assert certificate.total_epsilon >= certificate.epsilon
        if self.certificate is not None:
            self.earlier.append(self.certificate)
        self.certificate = certificate

    # What users do

    @rule(n=st.integers(1, 4))
    def add(self, n):
        new = self.made(n)
        X, y, named = self.given_rows(new)
        certificate = self.model.add(X, y, **named)
        self.learned(new)
        self.certified(certificate, [])
        self.released()

    @precondition(lambda self: self.gone_people())
    @rule(k=st.integers(0, 10**4))
    def somebody_returns(self, k):
        person = self.gone_people()[k % len(self.gone_people())]
        new = self.made(2, person)
        X, y, named = self.given_rows(new)
        certificate = self.model.add(X, y, **named)
        self.learned(new)
        self.certified(certificate, [])
        self.released()

    @rule(k=st.integers(0, 10**4), by=st.sampled_from(["ids", "rows"]))
    def correct(self, k, by):
        old = self.chosen(k)
        new = self.made(len(old))
        X, y = self.table(new)
        name = {"ids": "id", "rows": "number"}[by]
        certificate = self.model.correct(X, y, **{by: [row[name] for row in old]})
        numbers = [row["number"] for row in old]
        for row, better in zip(old, new, strict=True):
            self.gone.append({**row, "id": "", "person": ""})  # its values; its names stay
            row |= {"x": better["x"], "y": better["y"]}
        self.certified(certificate, numbers)
        self.released()

    @precondition(lambda self: len(self.rows) > LEAST)
    @rule(k=st.integers(0, 10**4), by=st.sampled_from(["rows", "ids", "subject", "subjects"]))
    def unlearn(self, k, by):
        request, rows = self.request(k, by)
        self.forgotten(self.model.unlearn(**request), rows)

    def request(self, k, by):
        rows = self.chosen(k)
        if by in ("rows", "ids"):
            name = {"ids": "id", "rows": "number"}[by]
            return {by: [row[name] for row in rows]}, rows
        who = sorted({row["person"] for row in rows})
        who = who if by == "subjects" else who[0]
        return {by: who}, [row for row in self.rows if row["person"] in who]

    def forgotten(self, certificate, rows):
        people, earlier = self.n_releases, self.rows
        self.rows = [row for row in self.rows if row not in rows]
        self.gone += rows
        self.certified(certificate, [row["number"] for row in rows])
        if self.shaped:
            self.check_past(certificate, rows, earlier, people)
        self.released()

    def check_past(self, certificate, rows, before, n_releases):
        """What earlier releases told of people who are gone as a whole, counted by hand."""
        whole = {row["person"] for row in rows} - {row["person"] for row in self.rows}
        numbers = {
            tuple(row["number"] for row in before if row["person"] == person): n_releases[person]
            for person in whole
        }
        told = certificate.earlier_releases["people"]
        assert {tuple(one["rows"]): one["n_releases"] for one in told} == numbers
        for one in told:
            if one["epsilon"] is not None:  # never less than each release tells by itself
                # which is stated rounded up to a power of 2^(1/8)
                assert one["epsilon"] >= max(each or 0.0 for each in one["each"]) / 2**0.1251

    @rule(exact=st.booleans(), k=st.integers(0, 10**4))
    def exposure(self, exact, k):
        before = self.parameters()
        some = self.people[k % len(self.people) :][:3]
        found = self.model.exposure(subjects=some, exact=exact)
        assert found.names == tuple(some)
        numbers = [tuple(r["number"] for r in self.rows if r["person"] == p) for p in some]
        assert list(found.requests) == numbers
        assert (found.epsilon > 0).all()
        assert (self.parameters() == before).all()

    @rule(k=st.integers(0, 10**4), by_id=st.booleans())
    def pickle_and_attach(self, k, by_id):
        self.model = pickle.loads(pickle.dumps(self.model))
        with pytest.raises(RowsNotAttached):
            self.model.unlearn(rows=[self.rows[0]["number"]])
        self.attach(self.rows, k, by_id)

    def attach(self, rows, k, by_id):
        order = np.random.default_rng(k).permutation(len(rows))
        X, y, named = self.given_rows([rows[i] for i in order])
        self.model.attach(X, y, sample_ids=named["sample_ids"] if by_id else None)

    @precondition(lambda self: len(self.rows) > LEAST)
    @rule(k=st.integers(0, 10**4), by_id=st.booleans())
    def erase_first_and_unlearn_then(self, k, by_id):
        """The rows are no longer in the table: only a request that names them is answered."""
        request, rows = self.request(k, "ids")
        self.model = pickle.loads(pickle.dumps(self.model))
        self.attach([row for row in self.rows if row not in rows], k, by_id)
        other = next(row for row in self.rows if row not in rows)
        for call in (
            lambda: self.model.unlearn(ids=other["id"]),
            lambda: self.model.exposure(subject=other["person"]),
        ):
            with pytest.raises(WrongInput, match="missing from the attached table"):
                call()
        self.forgotten(self.model.unlearn(**request), rows)

    @precondition(lambda self: self.certificate is not None)
    @rule()
    def verify_with_data(self):
        X, y, named = self.given_rows(self.rows)
        checks = verify(self.certificate, self.model, X, y, subjects=named["subjects"])
        assert checks["inputs_checked_against_data"]
        assert checks["rows_checked"]
        assert self.model.verify(self.certificate)["issuer_checked"]
        with pytest.raises(CertificateMismatch):
            verify(self.certificate, self.model, X[1:], y[1:], subjects=named["subjects"][1:])
        for one in self.earlier[-1:]:
            assert verify(one)["epsilon_recomputed"]
            with pytest.raises(CertificateMismatch):
                self.model.verify(one)

    @precondition(lambda self: any(row["id"] for row in self.gone))
    @rule(k=st.integers(0, 10**4))
    def ask_for_the_forgotten(self, k):
        before, there = self.parameters(), self.rows[0]
        lost = [row for row in self.gone if row["id"]]
        row = lost[k % len(lost)]
        requests = [{"rows": [row["number"], there["number"]]}, {"ids": row["id"]}]
        if row["person"] not in self.people:
            requests += [{"subject": row["person"]}, {"subjects": [row["person"]]}]
        for request in requests:
            with pytest.raises(AlreadyForgotten):
                self.model.unlearn(**request)
        assert (self.parameters() == before).all()

    # What must be true

    def gone_people(self):
        return sorted({row["person"] for row in self.gone if row["person"]} - {*self.people})

    def parameters(self):
        return np.append(self.model.coef_, self.model.intercept_)

    @invariant()
    def the_model_is_that_of_the_rows_that_are_left(self):
        if not hasattr(self, "model"):
            return
        assert self.model.remaining_.tolist() == [row["number"] for row in self.rows]
        X, y = self.table(self.rows)
        plain = self.program()
        head = plain if not hasattr(plain, "steps") else plain[-1]
        if self.is_labelled:
            head.set_params(solver="newton-cholesky", tol=1e-12)
        plain.fit(X, y)
        score = "decision_function" if self.is_labelled else "predict"
        away = getattr(self.model, score)(X) - getattr(plain, score)(X)
        unit = 1.0 if self.is_labelled else np.std(y)
        assert 0 < np.abs(away).max() < (SHAPED if self.shaped else FAR) * unit

    @invariant()
    def no_pickle_holds_the_forgotten(self):
        if not hasattr(self, "model"):
            return
        content = pickle.dumps(self.model)
        values = [v for row in self.gone for v in (*row["x"], row["y"]) if isinstance(v, float)]
        assert not numbers_within(content, values)
        names = {row["id"] for row in self.gone if row["id"]} | {*self.gone_people()}
        assert not any(name.encode() in content for name in names)
        assert self.rows[0]["id"].encode() in content  # names that stay are found
        assert numbers_within(content, self.parameters()[:1])


@few_and_many
def test_forgetful_by_any_calls(examples):
    run(ForgetfulMachine, examples)
