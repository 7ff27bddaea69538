"""Random histories of a store against a plain list of rows and scikit-learn."""

import hashlib
import random
from collections import Counter

import numpy as np
import pytest

from desk.refit.tables import desk_scores, make_rows, plain_scores, write
from pilu.desk.checking import check_receipt, check_store
from pilu.desk.desk import Desk
from pilu.exceptions import RowsChanged, WrongInput

N_STEPS = 8
FAR = 0.012  # of a score; the noise of a typical one is 1e-3

SETTINGS = {
    "ids and subjects": {"id": "row", "subject": "person"},
    "subjects, weights, numbers": {"subject": "person", "weight": "weight", "target": "number"},
    "ids only": {"id": "row", "ending": ".parquet"},
    "words, weights": {"id": "row", "subject": "person", "weight": "weight", "words": True},
}
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 30))]


class World:
    """The user's tables and what should be in the model, as lists of dictionaries."""

    def __init__(self, folder, seed, settings):
        self.folder, self.rng, self.seed = folder, random.Random(seed), seed
        self.ending = settings.get("ending", ".csv")
        self.id, self.subject = settings.get("id"), settings.get("subject")
        self.target, self.words = settings.get("target", "class"), settings.get("words", False)
        self.weight = settings.get("weight")
        self.who = self.subject or self.id
        self.leave_out = {"row", "person", "weight", "said"}
        self.leave_out -= {self.id, self.subject, self.weight, "said" if self.words else None}
        self.tables, self.in_model, self.gone, self.waiting = {}, [], set(), set()
        self.n_made = self.n_files = 0
        first = self.new_rows(60)
        if self.id is None:  # equal rows of one person, and of two people
            first += [dict(first[0]), {**first[1], "person": first[5]["person"]}]
        name = self.put(first)
        self.in_model = list(first)
        self.desk = Desk.fit(
            folder / "store",
            name,
            target="y",
            id=self.id,
            subject=self.subject,
            weight=self.weight,
            words=["said"] if self.words else [],
        )

    # Tables

    def new_rows(self, n, people=None):
        made = make_rows(n, self.seed, first=self.n_made, people=people, target=self.target)
        self.n_made += n
        return made

    def put(self, rows, name=None):
        if name is None:
            self.n_files += 1
            name = self.folder / f"table {self.n_files}{self.ending}"
        self.tables[name] = rows
        if rows:
            write(rows, name, self.leave_out)
        else:
            name.unlink()  # a table without rows is not there
        return name

    def put_all(self, change):
        for name, rows in list(self.tables.items()):
            self.put(change(rows), name)

    def visible(self):
        """Rows of all tables; those of later ones replace those of the same id."""
        listed = [row for rows in self.tables.values() for row in rows]
        if self.id is None:
            return listed
        last = {row[self.id]: row for row in listed if row[self.who] in self.gone}
        last |= {row[self.id]: row for row in listed if row[self.who] not in self.gone}
        return list(last.values())

    def people(self):
        return sorted({row[self.who] for row in self.in_model})

    def some_people(self, most=3):
        known = self.people()
        return self.rng.sample(known, min(self.rng.randint(1, most), len(known) - 10))

    def erase(self, people):
        self.put_all(lambda rows: [row for row in rows if row[self.who] not in people])

    # Steps

    def unlearn(self):
        people = self.some_people()
        if self.rng.random() < 0.3:
            self.desk.request(people)
            self.waiting |= set(people)
            return
        if self.rng.random() < 0.5:
            self.erase(people)
        self.answered(self.desk.unlearn(people), set(people))

    def run(self):
        people = set(self.waiting)
        if self.rng.random() < 0.5:
            self.erase(people)
        outcome = self.desk.run()
        assert (outcome is None) == (not people)
        if outcome is not None:
            self.answered(outcome, people)

    def answered(self, outcome, people):
        self.gone |= people
        self.waiting -= people
        self.in_model = [row for row in self.in_model if row[self.who] not in people]
        assert len(outcome.receipts) == len(people)
        for receipt in outcome.receipts:
            assert check_receipt(receipt, self.desk)["in_the_log_of_the_store"]

    def add(self):
        people = self.some_people() + ["somebody new"] * 3 if self.subject else None
        rows = self.new_rows(len(people) if people else 4, people)
        back = self.rng.choice(sorted(self.gone)) if self.gone else None
        if back is not None:
            rows[-1][self.who] = back
        name = self.put(rows)
        if back is None:
            self.desk.add(name)
            self.in_model += rows
            return
        with pytest.raises(WrongInput, match=rf"^{back} was forgotten, and must not be learned"):
            self.desk.add(name)
        if self.rng.random() < 0.5:
            self.desk.add(name, returned=[back])
            self.gone.remove(back)
            self.in_model += rows
        else:
            self.desk.add(name, without_forgotten=True)
            self.in_model += rows[:-1]

    def correct(self):
        if self.id is None:
            with pytest.raises(WrongInput, match="corrected only in a store with ids"):
                self.desk.correct(next(iter(self.tables)))
            return
        places = self.rng.sample(range(len(self.in_model)), 3)
        new = [
            {**self.in_model[k], "age": self.rng.randint(18, 80), "city": "Chur"} for k in places
        ]
        self.desk.correct(self.put(new))
        for k, row in zip(places, new, strict=True):
            self.in_model[k] = row

    def sync(self):
        missing = self.some_people()
        stay = [row for row in self.in_model if row[self.who] not in missing]
        changed = self.rng.choice(stay)

        def edited(rows):
            kept = [row for row in rows if row[self.who] not in missing]
            return [{**r, "age": r["age"] + 1} if r == changed else r for r in kept]

        last = list(self.tables)[-1]
        self.put_all(edited)
        self.put(self.tables[last] + self.new_rows(2), last)
        self.shuffle()
        seen = self.visible()
        back = {row[self.who] for row in seen} & self.gone
        forget = self.rng.random() < 0.5
        if back:
            with pytest.raises(WrongInput, match="forgotten, and must not be learned again"):
                self.desk.sync()
        before = set(self.people())
        options = {"forget_missing": forget, "without_forgotten": bool(back)}
        if not all(name.exists() for name in self.tables):  # it held nobody but those
            with pytest.raises(WrongInput, match="cannot be read"):
                self.desk.sync(**options)
            name = self.put(seen, self.folder / f"all{self.ending}")
            self.tables = {name: seen}
            options["table"] = name
        outcome = self.desk.sync(**options)
        self.in_model = [row for row in seen if row[self.who] not in self.gone]
        if forget:
            left = before - set(self.people())
            assert len(outcome.receipts) == max(len(left), 1)
            self.gone |= left
            self.waiting -= left

    def shuffle(self):
        self.put_all(lambda rows: self.rng.sample(rows, len(rows)))

    def step(self):
        steps = [self.unlearn, self.unlearn, self.run, self.add, self.correct, self.sync]
        self.rng.choice([*steps, self.shuffle])()

    # What must be true

    def check(self):
        desk, held = self.desk, self.desk.read()
        table = write(self.in_model, self.folder / f"left{self.ending}", self.leave_out)
        checks = check_store(desk, table=table)
        assert checks["rows_are_those_of_the_table"]
        difference = desk.compare(table)
        assert difference.is_empty
        assert difference.n_same == len(self.in_model)
        named = Counter(row.tobytes() for row in held.names.hashes["subject"])
        assert named == Counter(keyed(row[self.who], held.key) for row in self.in_model)
        assert held.suppressed == {keyed(name, held.key) for name in self.gone}
        assert {one.name for one in desk.pending()} == {
            keyed(name, held.key).hex() for name in self.waiting
        }
        at = make_rows(20, 99, target=self.target)
        how = {"target": self.target, "words": self.words, "weighted": self.weight is not None}
        spread = np.std([row["y"] for row in self.in_model]) if self.target != "class" else 1.0
        left_out = self.leave_out | {"y"}
        given = {"target": self.target, "spread": spread, "leave_out": left_out}
        found = desk_scores(desk, at, self.folder, **given)
        np.testing.assert_allclose(found, plain_scores(self.in_model, at, **how), atol=FAR, rtol=0)


def keyed(name, key):
    return hashlib.blake2b(name.encode(), key=key, digest_size=16).digest()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", SETTINGS)
def test_the_model_is_that_of_the_rows_that_are_left(tmp_path, kind, seed):
    world = World(tmp_path, seed, SETTINGS[kind])
    with world.desk:
        world.check()
        for _ in range(N_STEPS):
            world.step()
            world.check()


def test_the_oracle_notices_a_row_more(tmp_path):
    """A model of other rows is farther away than the noise."""
    world = World(tmp_path, 0, SETTINGS["ids and subjects"])
    with world.desk:
        world.in_model = world.in_model[:-1]
        with pytest.raises(RowsChanged, match="1 are not in"):
            world.check()
        at = make_rows(20, 99)
        fewer = plain_scores(world.in_model, at, words=False)
        found = desk_scores(world.desk, at, tmp_path, leave_out={"y"})
        assert np.abs(found - fewer).max() > FAR
