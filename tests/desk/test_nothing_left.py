"""What an attacker finds who has every byte of a store, its key, and every row but the one.

He searches the bytes, solves for the row, and tries two hundred candidates for it, of which one is
the truth, on each number that is kept.
"""

import hashlib
import itertools
import json
import math
import re
import struct
from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from pilu import LangevinRidge
from pilu.certify.coarse import CoarseExact
from pilu.data.names import hash_of
from pilu.data.rows import ArrayRows
from pilu.data.statistics import Statistics
from pilu.data.table import Columns
from pilu.desk.langevin_desk import LangevinDesk
from pilu.desk.model_records import arrays_of, record_of, restore_model

N, P, ROW = 60, 4, 7
SETTINGS = {"n_steps": 50, "noise": 0.01}
# Requests one after the other; what is looked for is ROW, the others are known to the attacker.
HISTORIES = {
    "after one request": (ROW,),
    "after three requests": (3, ROW, 20),
    "after a redraw": (ROW, "redraw"),
}
histories = pytest.mark.parametrize("history", HISTORIES)


@cache
def world(seed):
    """Rows, and candidates for one of them from the same law."""
    rng = np.random.default_rng(seed)
    slope = rng.normal(size=P)
    X = rng.normal(size=(N + 199, P))
    y = X @ slope + rng.normal(size=len(X))
    return X[:N], y[:N], X[N:], y[N:]


def candidates(seed, row=ROW, n=200):
    """The first is the truth."""
    X, y, guesses, targets = world(seed)
    return np.vstack([X[row], guesses])[:n], np.append(y[row], targets)[:n]


def with_ones(X):
    return np.column_stack([X, np.ones(len(X))])


@pytest.fixture
def forgetting(tmp_path):
    """A store of a world after some requests; each in a folder of its own."""
    numbers = itertools.count()

    def make(seed, requests, before=lambda desk, request: None, **options):
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        X, y, _, _ = world(seed)
        columns = {f"f{k}": X[:, k] for k in range(P)}
        columns |= {"y": y, "person": [f"person number {i}" for i in range(N)]}
        pyarrow.parquet.write_table(pa.table(columns), folder / "people.parquet")
        named = Columns(("y",), None, "person")
        desk = LangevinDesk.create(folder / "store", folder / "people.parquet", named, **SETTINGS)
        with desk:
            for request in requests:
                before(desk, request)
                if request == "redraw":
                    desk.redraw(**options)
                else:
                    desk.unlearn(f"person number {request}", n_unlearn_steps=1, **options)
            return folder / "store", desk.read(), desk.store.key

    return make


# Searching the bytes


def encodings(numbers, digits=6):
    """Numbers as bytes: each as a double, pairs as floats, all of them as halves; and as text."""
    for order in "<>":
        yield from (struct.pack(f"{order}d", number) for number in numbers)
        yield from (struct.pack(f"{order}2f", *pair) for pair in itertools.pairwise(numbers))
        if max(map(abs, numbers)) < 6e4 and len(numbers) > 3:
            yield struct.pack(f"{order}{len(numbers)}e", *numbers)
    for number in numbers:  # so many digits, with a point among them
        plain = f"{abs(number):.15f}"
        first = re.search("[1-9]", plain)
        if first and abs(number) < 1e5:
            yield plain[: max(first.start(), 1) + digits + (first.start() == 0)].encode()
        yield f"{abs(number):.15e}"[: digits + 1].encode()


def traces(x, y, digest):
    """All that a row leaves behind by itself."""
    whole = np.append(x, 1.0)
    products = [float(a * b) for a, b in itertools.combinations_with_replacement(x, 2)]
    yield from encodings([*map(float, x), float(y)])
    yield from encodings([float(y), *map(float, x)])
    yield from encodings(products)
    yield from encodings([*(float(v * y) for v in x), float(y * y)])
    yield from encodings([float(x @ x), float(whole @ whole), float(np.linalg.norm(x))])
    yield from (digest.tobytes(), digest.tobytes()[:8], digest.tobytes().hex().encode())


def floats_in(record):
    """All floats in a nest of records."""
    if isinstance(record, float):
        return [record]
    parts = record.values() if hasattr(record, "values") else record
    if isinstance(record, str) or not hasattr(parts, "__iter__"):
        return []
    return [number for part in parts for number in floats_in(part)]


def held_by(desk):
    """What is in the arrays and the state of this snapshot, and must not outlive it."""
    snapshot = desk.read()
    chain, state = snapshot.model.fitted_.chain, snapshot.state
    problem = chain.problem
    arrays = {
        "parameters": chain.theta,
        "X'X": problem.statistics.gram,
        "X'y": problem.statistics.cross,
        "eigenvalues": problem.spectrum.eigenvalues,
        "eigenbasis": problem.spectrum.basis,
        "X'y in the eigenbasis": problem.spectrum.cross,
        "target": np.array([state["model"]["target_norm"]]),
        "energy": np.array([state["model"]["statistics"]["target_energy"]]),
    }
    for name, array in arrays.items():
        numbers = [float(v) for v in array.ravel() if v not in (0.0, 1.0, float(N))]
        # Parameters are drawn anew each time: six digits of so many would be found by chance.
        yield from ((name, pattern) for pattern in encodings(numbers, digits=10))
    yield "nonce", state["nonce"].encode()
    for name, sha256 in state["arrays"].items():
        if name != "start":  # zeros, before and after
            yield f"the hash of {name}", sha256.encode()
            yield f"the hash of {name}", bytes.fromhex(sha256)


def found_in(content, patterns):
    return [name for name, pattern in patterns if pattern in content]


def bytes_of(store):
    files = [path for path in store.rglob("*") if path.is_file()]
    return {str(path.relative_to(store)): path.read_bytes() for path in files}


@histories
def test_no_byte_tells_of_the_row(forgetting, history):
    evidence, held, earlier = [], [], []

    def before(desk, request):
        # a redraw replaces the parameters and leaves the statistics
        mine = ("parameters", "the hash of theta", "nonce")
        held.extend((n, p) for n, p in held_by(desk) if request != "redraw" or n in mine)
        earlier.append(b"".join(bytes_of(desk.store.folder).values()))

    def deliver(receipts):
        (receipt,) = receipts
        public = json.dumps(dict(receipt.entry))
        numbers = [n for n in floats_in(receipt.evidence or {}) if repr(n) not in public]
        prior = floats_in((receipt.evidence or {}).get("prior", {}))
        evidence.extend(n for n in numbers if n not in prior and len(repr(n)) > 12)

    X, y, _, _ = world(0)
    store, snapshot, key = forgetting(0, HISTORIES[history], before, deliver=deliver)
    digest = snapshot.model.fitted_.source.digest(X[[ROW]], y[[ROW], None])[0]
    assert digest.tobytes() in earlier[0]
    assert len(found_in(earlier[0], held)) > 20  # what is looked for was there
    assert len(evidence) > 3
    patterns = [("the row", pattern) for pattern in traces(X[ROW], y[ROW], digest)] + held
    patterns += [("evidence", text) for n in evidence for text in (repr(n).encode(), _double(n))]
    patterns += [("the name", f"person number {ROW}".encode())]
    for name, content in bytes_of(store).items():
        assert found_in(content, patterns) == [], name
    # the keyed hash of the name is kept, in the log alone: a second request is told from an unknown
    hashed = hash_of(f"person number {ROW}", key)
    arrays = [content for name, content in bytes_of(store).items() if name.endswith(".npy")]
    assert not any(hashed in content or hashed.hex().encode() in content for content in arrays)
    assert hashed.hex().encode() in bytes_of(store)["ledger.sqlite"]


def _double(number):
    return struct.pack("<d", number)


def test_the_search_finds_what_is_there():
    X, y, _, _ = world(0)
    x, digest = X[ROW], np.arange(16, dtype=np.uint8)
    patterns = [("it", pattern) for pattern in traces(x, y[ROW], digest)]
    for left in (
        X[ROW].tobytes(),
        X[ROW].astype(">f8").tobytes(),
        X[ROW].astype("f4").tobytes(),
        np.append(X[ROW], y[ROW]).astype("f2").tobytes(),
        f"{X[ROW, 1]:.7f}".encode(),
        json.dumps({"x": float(X[ROW, 2] * y[ROW])}).encode(),
        np.outer(X[ROW], X[ROW]).tobytes(),
        digest.tobytes().hex().encode(),
    ):
        assert found_in(b"before" + left + b"after", patterns), left
    assert not found_in(X[ROW + 1].tobytes(), patterns)


# Solving for the row


def exactly(X, y, left):
    """X'X and X'y of some rows, without any rounding."""
    rows = [[Fraction(float(v)) for v in (*X[i], 1.0, y[i])] for i in left]
    return [[sum(a[j] * a[k] for a in rows) for k in range(P + 2)] for j in range(P + 1)]


def rest(snapshot, X, y, row):
    """The statistics that are kept, less those of all other rows: exact until the very end."""
    held = snapshot.model.fitted_.chain.problem.statistics
    sums = exactly(X, y, [i for i in range(N) if i != row])
    kept = np.column_stack([held.gram, held.cross])
    return np.array(
        [[float(Fraction(float(v)) - s) for v, s in zip(*two, strict=True)]
         for two in zip(kept, sums, strict=True)]
    )  # fmt: skip


def alignment(matrix, X):
    """How well rows fit the leading direction of a matrix."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    lead = vectors[:, np.argmax(np.abs(values))]
    return np.abs(X @ lead) / np.linalg.norm(X, axis=1)


def test_what_is_kept_less_the_others_does_not_point_to_the_row(forgetting):
    """Rounding is left, and it fits the row no better than it fits the candidates."""
    ranks = []
    for row in range(0, 40, 2):
        X, y, _, _ = world(1)
        _, snapshot, _ = forgetting(1, (row,))
        left = rest(snapshot, X, y, row)
        size = np.linalg.norm(with_ones(X).T @ with_ones(X))
        assert np.linalg.norm(left) < 1e-14 * size
        guesses = with_ones(candidates(1, row)[0])
        fit = alignment(left[:, : P + 1], guesses)
        ranks.append(np.mean(fit[1:] < fit[0]))
    # Were the rest x x', all ranks would be 1; of twenty uniform ones the mean is 0.5 +- 0.065.
    assert 0.25 < np.mean(ranks) < 0.75


def test_the_solution_finds_a_row_that_was_not_subtracted():
    X, _, _, _ = world(1)
    whole = with_ones(X[[4]])
    fit = alignment(whole.T @ whole, with_ones(candidates(1, 4)[0]))
    assert np.argmax(fit) == 0


# Trying candidates on what is kept


def eighth_below(number):
    return 2 ** (math.floor(8 * math.log2(number)) / 8)


def as_stored(model, X, y):
    """The model as the next command finds it."""
    record, key = json.loads(json.dumps(record_of(model))), model.fitted_.source.key
    model = restore_model(record, dict(arrays_of(model)), key, latest=None)
    source = model.fitted_.source.reading(ArrayRows(X, y[:, None]))
    model.fitted_ = model.fitted_.reading(model.fitted_.chain.problem.reading(source))
    return model


def kept_numbers(certificates, record):
    """What stays, sorted by what it is."""
    return {
        "step size": record["step_size"],
        "noise": [c["noise"] for c in certificates],
        "errors": [c["numerical_error"] for c in certificates] + [record["statistics"]["error"]],
        "totals": [(c["epsilon"], c["total_epsilon"], c["total_delta"]) for c in certificates],
        "table of the total": record["spent"],
        "facts": [c["checks"] for c in certificates],
    }


def if_it_were(x, target, seed, requests):
    """What a store would keep if the row were another."""
    X, y = (array.copy() for array in world(seed)[:2])
    X[ROW], y[ROW] = x, target
    largest = np.linalg.norm(with_ones(X), 2) ** 2 + 1e-4
    model = LangevinRidge(**SETTINGS, step_size=eighth_below(1 / largest)).fit(X, y)
    certificates = []
    for request in requests:
        model = as_stored(model, X, y)
        if request == "redraw":
            found = model.unlearn(None, method="redraw")
        else:
            found = model.unlearn([request], n_unlearn_steps=1, accountant=CoarseExact())
        certificates.append(json.loads(found.to_json()))
    return kept_numbers(certificates, record_of(model)), certificates


@cache
def tried(seed, history, n):
    """What all candidates would leave."""
    X, y = candidates(seed, n=n)
    return [if_it_were(*guess, seed, HISTORIES[history])[0] for guess in zip(X, y, strict=True)]


def leverage(seed, n):
    X = with_ones(np.delete(world(seed)[0], ROW, axis=0))
    guesses = with_ones(candidates(seed, n=n)[0])
    return np.sum(guesses @ np.linalg.inv(X.T @ X) * guesses, axis=1)


@pytest.fixture(scope="module")
def agreement():
    """For each history and kind of number: how many of the similar candidates agree."""
    found = {}

    def look(forgetting, history, kind, n, seeds):
        agreeing, similar = 0, 0
        for seed in seeds:
            if (seed, history) not in found:
                _, snapshot, _ = forgetting(seed, HISTORIES[history])
                records = [e.record["certificate"] for e in snapshot.log.entries[1:]]
                found[seed, history] = kept_numbers(records, snapshot.state["model"])
            kept, others = found[seed, history], tried(seed, history, n)
            assert others[0] == kept, "the attack must know the truth when he sees it"
            kinds = [k for k in kept if k != "noise"] if kind == "all but the noise" else (kind,)
            leverages = leverage(seed, n)
            near = np.abs(np.log2(leverages / leverages[0])) <= 0.5
            near[0] = False
            agrees = np.array([all(other[k] == kept[k] for k in kinds) for other in others])
            similar, agreeing = similar + near.sum(), agreeing + (agrees & near).sum()
        assert similar >= 20
        return agreeing / similar

    return look


KINDS = ("step size", "totals", "facts", "errors", "table of the total", "all but the noise")


@histories
@pytest.mark.parametrize("kind", KINDS)
def test_no_number_singles_out_the_row(forgetting, agreement, kind, history):
    """At least a tenth of the candidates with about the row's leverage would leave the same.

    The noise itself tells them apart by eighths of an octave: see docs/desk.md.
    """
    n = 45 if history == "after three requests" else 100
    assert agreement(forgetting, history, kind, n, seeds=(2, 6)) >= 0.1


@histories
def test_no_hash_can_be_tried_on_a_candidate(forgetting, history):
    """All that is hashed has something random in it: not even the truth has the same hash."""
    X, y, _, _ = world(0)
    _, snapshot, _ = forgetting(0, HISTORIES[history])
    _, again = if_it_were(X[ROW], y[ROW], 0, HISTORIES[history])
    for entry, other in zip(snapshot.log.entries[1:], again, strict=True):
        kept = entry.record["certificate"]
        assert kept["noise"] == other["noise"]
        names = ["parameters_sha256"] + ["evidence_sha256"] * (kept["method"] == "langevin")
        assert all(kept[name] != other[name] for name in names)
    fits = [forgetting(0, ())[1] for _ in range(2)]
    assert len({fit.log.entries[0].record["parameters_sha256"] for fit in fits}) == 2
    assert len({fit.state["nonce"] for fit in fits}) == 2  # in the hash of the state
    bare = json.dumps({**snapshot.state, "nonce": None}, sort_keys=True, separators=(",", ":"))
    assert (
        snapshot.log.entries[-1].record["state_sha256"] != hashlib.sha256(bare.encode()).hexdigest()
    )
    assert len(bytes.fromhex(snapshot.state["nonce"])) == 16


# Trying candidates on the last bits


def replayed(x, target, seed, requests):
    """X'X and X'y as floating point leaves them once the rows are summed and subtracted."""
    X, y = (array.copy() for array in world(seed)[:2])
    X[ROW], y[ROW] = x, target
    Y = y[:, None]
    X = np.asfortranarray(X)  # as tables are read
    held = Statistics.collect(lambda *_: [(X, Y)], N, P + 1, 1, fit_intercept=True)
    for row in requests:
        if row != "redraw":
            held = held.without(with_ones(X[[row]]), Y[[row]])
    return held


@histories
def test_the_last_bits_single_out_the_row_unless_they_are_summed_anew(forgetting, history):
    """Rounding of sum and subtraction knows the row; a sum of the others cannot."""
    requests = HISTORIES[history]
    for recollect in (False, True):
        _, snapshot, _ = forgetting(0, requests, recollect=recollect)
        held = snapshot.model.fitted_.chain.problem.statistics
        same = [
            np.array_equal(again.gram, held.gram) and np.array_equal(again.cross, held.cross)
            for again in (
                replayed(*guess, 0, requests) for guess in zip(*candidates(0), strict=True)
            )
        ]
        assert same == [not recollect] + [False] * 199
    X, y, _, _ = world(0)
    left = [i for i in range(N) if i not in requests]
    never = Statistics.collect(
        lambda *_: [(np.asfortranarray(X[left]), y[left, None])],
        len(left),
        P + 1,
        1,
        fit_intercept=True,
    )
    assert np.array_equal(held.gram, never.gram)
    assert np.array_equal(held.cross, never.cross)
