"""A thousand damaged files: each is refused in one line that names it, or means what it meant."""

import copy
import json
import shutil
import signal
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from pilu import LangevinRidge, verify
from pilu.certify.certificate import Certificate
from pilu.cli.app import app
from pilu.cli.files import read_text
from pilu.data.table import Columns
from pilu.desk.checking import check_store, people_in
from pilu.desk.desk import Desk
from pilu.desk.handing_over import receipts_of_entry
from pilu.desk.langevin_desk import LangevinDesk
from pilu.desk.receipt import Receipt
from pilu.desk.signing import check_signature, make_keys, sign_statement
from pilu.exceptions import CertificateMismatch, DoneWithTrouble, PiluError
from pilu.store.log import check_proof, proof_of_growth, proof_of_place

STORES, DOCUMENTS = 55, 75  # mutations of each seed, and of each document
SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 110))]
ROUNDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 15))]


# A store with some history


def lost(receipts):
    raise OSError("no room")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store of thirty rows in which all kinds of entries are, and documents about it."""
    folder = tmp_path_factory.mktemp("fuzzed")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = X.sum(axis=1) + rng.normal(size=30)
    people = [f"person {i}" for i in range(30)]
    pyarrow.parquet.write_table(
        pa.table({"a": X[:, 0], "b": X[:, 1], "y": y, "person": people}), folder / "t.parquet"
    )
    make_keys(folder / "private", folder / "public")
    handed, columns = [], Columns(("y",), None, "person")
    with LangevinDesk.create(
        folder / "store", folder / "t.parquet", columns, n_steps=50, noise=0.05
    ) as desk:
        noted = desk.log().head
        desk.unlearn("person 3", n_unlearn_steps=1, deliver=handed.extend)
        desk.redraw(deliver=handed.extend)
        desk.request("person 5")
        desk.unlearn(["person 6", "person 8"], n_unlearn_steps=1)
        desk.unlearn("person 7", n_unlearn_steps=1, deliver=handed.extend)
        desk.release()
        with pytest.raises(DoneWithTrouble):
            desk.unlearn("person 9", n_unlearn_steps=1, deliver=lost)
        proofs = proof_of_growth(desk.log(), noted), proof_of_place(desk.log(), 1)
    first, redrawn, last = handed
    model = LangevinRidge(n_steps=50, noise=0.05, random_state=0).fit(X, y)
    theorem = model.unlearn([3], accountant="theorem", epsilon=2.0)
    documents = {
        "first receipt": first.to_json(),
        "receipt": last.to_json(),
        "receipt of a redraw": redrawn.to_json(),
        "signed": last.signed(sign_statement(last, folder / "private")).to_json(),
        "certificate": last.certificate.to_json(),
        "certificate by the theorem": theorem.to_json(),
        "proof of growth": json.dumps(proofs[0]),
        "proof of place": json.dumps(proofs[1]),
    }
    return folder, documents


@pytest.fixture
def copied(made, tmp_path):
    """Put a fresh copy of the store in place."""

    def fresh():
        shutil.rmtree(tmp_path / "store", ignore_errors=True)
        shutil.copytree(made[0] / "store", tmp_path / "store")
        return tmp_path / "store"

    return fresh


def said_by_store(folder):
    """Everything that a store answers, as plain values."""
    with Desk.open(folder, patience=0.2) as desk:
        checks, snapshot = check_store(desk), desk.read()
        chain = snapshot.model.fitted_.chain
        arrays = (chain.theta, chain.problem.statistics.gram, chain.problem.spectrum.basis)
        names = {kind: hashes.tobytes() for kind, hashes in snapshot.names.hashes.items()}
        log, people = [entry.body for entry in desk.log().entries], people_in(desk.store)
        receipts = [receipts_of_entry(desk.store, place)[1] for place in desk.undelivered()]
        said = (desk.log().head, desk.left(), desk.pending(), receipts)
        return (
            [checks, snapshot.state, log, people, names, *said],
            [array.tobytes() for array in arrays],
        )


# Mutations: each takes a generator and bytes, and says what it did


def flipped(rng, content):
    place, bit = int(rng.integers(len(content))), int(rng.integers(8))
    content[place] ^= 1 << bit
    return f"bit {bit} of byte {place} flipped"


def replaced(rng, content):
    place, value = int(rng.integers(len(content))), int(rng.integers(256))
    content[place] = value
    return f"byte {place} set to {value}"


def cut(rng, content):
    length = int(rng.choice([0, 1, len(content) - 1, rng.integers(len(content))]))
    del content[length:]
    return f"cut to {length} bytes"


def inserted(rng, content):
    place, more = int(rng.integers(len(content) + 1)), rng.bytes(int(rng.integers(1, 40)))
    content[place:place] = more
    return f"{more!r} inserted at {place}"


def zeroed(rng, content):
    first = int(rng.integers(len(content)))
    last = min(len(content), first + int(rng.choice([1, 8, 100, 4096])))
    content[first:last] = bytes(last - first)
    return f"zeros from {first} to {last}"


def doubled(rng, content):
    first = int(rng.integers(len(content)))
    part = content[first : first + int(rng.integers(1, 200))]
    content[first:first] = part
    return f"{len(part)} bytes at {first} doubled"


BYTES = (flipped, replaced, cut, inserted, zeroed, doubled)


def mutated_store(rng, folder):
    """Damage one file (or two that change places); its name, and what was done."""
    arrays = sorted(folder.glob("arrays-*/*.npy"))
    path = rng.choice([folder / "ledger.sqlite"] * 6 + [folder / "key"] * 2 + arrays)
    how = str(rng.choice(["bytes", "bytes", "bytes", "bytes", "gone", "folder", "swapped"]))
    if how == "gone":
        path.unlink()
    elif how == "folder":
        path.unlink()
        path.mkdir()
    elif how == "swapped":
        other = rng.choice([p for p in arrays if p.read_bytes() != path.read_bytes()])
        there, here = path.read_bytes(), other.read_bytes()
        path.write_bytes(here)
        other.write_bytes(there)
        return (path.name, other.name), f"changed places with {other.name}"
    else:
        content = bytearray(path.read_bytes())
        how = BYTES[rng.integers(len(BYTES))](rng, content)
        path.write_bytes(content)
    return (path.name,), how


def nested(depth):
    found = []
    for _ in range(depth):
        found = [found]
    return found


def junk(rng):
    choices = [
        None, True, False, -1, 0, 1, 2.5, -0.0, 1e308, 5e-324, 10**30, -(10**400), float("nan"),
        float("inf"), "", "a", "é\u0000\ud800", "0" * 64, "9" * 5000, "1:" + "0" * 64, [], [[]],
        [None], {}, {"a": []}, [1, "a"], nested(90), nested(400), "pilu.receipt/2",
        "pilu.receipt/3",
    ]  # fmt: skip
    return choices[rng.integers(len(choices))]


MORE_NAMES = ("extra", "delta_split", "coarse", "direction", "name", "nonce", "prior", "blocks", "")


def containers(record, where=()):
    """All lists and records within a record that hold anything, with their paths."""
    if isinstance(record, dict | list) and record:
        yield where, record
        for key, part in record.items() if isinstance(record, dict) else enumerate(record):
            yield from containers(part, (*where, key))


def mutated_structure(rng, text):
    """The text of a record in which one thing is other than it was, and what."""
    record = json.loads(text)
    found = list(containers(record))
    where, holder = found[rng.integers(len(found))]
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    key = keys[rng.integers(len(keys))]
    how, value = str(rng.choice(["set", "set", "set", "gone", "more", "twice", "moved"])), junk(rng)
    if how == "set":
        holder[key] = value
    elif how == "gone":
        del holder[key]
    elif how == "more" and isinstance(holder, dict):
        key = str(rng.choice(MORE_NAMES))
        holder[key] = value
    elif how == "more":
        holder.append(value)
    elif how == "twice" and isinstance(holder, dict):
        holder[f"{key} once more"] = value  # the last of two equal names counts
    elif how == "twice":
        holder.append(copy.deepcopy(holder[key]))
    else:
        other, inside = found[rng.integers(len(found))]
        holder[key] = copy.deepcopy(inside)
        value = f"what is at {other}"
    made = json.dumps(record).replace(" once more", "")
    return made.encode(), f"{how} at {(*where, key)}: {str(value)[:60]}"


def mutated_document(rng, text):
    how = str(rng.choice(["bytes", "structure", "structure", "whole"]))
    if how == "structure":
        return mutated_structure(rng, text)
    if how == "bytes":
        content = bytearray(text.encode())
        return content, BYTES[rng.integers(len(BYTES))](rng, content)
    encodings = ("utf-16", "utf-32", "utf-8-sig", "utf-7")
    kind = str(rng.choice([*encodings, "junk", "deep", "padded"]))
    if kind == "junk":
        return json.dumps(junk(rng)).encode(), "nothing but junk"
    if kind == "deep":
        depth = int(rng.choice([500, 900, 2000, 100_000]))
        return b'{"schema":' + b"[" * depth + b"]" * depth + b"}", f"{depth} lists"
    if kind == "padded":
        return f"\n {text} \n".encode(), "padded"
    return text.encode(kind), kind


# What must hold


@contextmanager
def at_most(seconds):
    """Nothing may hang."""

    def ring(*_):
        raise TimeoutError(f"still at it after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def outcome(call, *given):
    """What a call says, or its complaint: of the right kind, in one line."""
    try:
        with at_most(10):
            return call(*given), None
    except (PiluError, ValueError) as error:
        complaint = str(error)
    assert len(complaint.splitlines()) == 1, complaint
    return None, complaint


def json_of(text):
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("too deep") from None


def said_by_document(name, path, public):
    """Everything that the check of a document answers."""
    text = read_text(path, "a document")
    if name.startswith("proof"):
        return check_proof(json_of(text))
    if name.startswith("certificate"):
        return verify(Certificate.from_json(text))
    receipt = Receipt.from_json(text)
    checks = receipt.verify()
    if name == "signed":
        check_signature(receipt, public)
    return {**checks, "said": (receipt.entry, receipt.place, receipt.head, receipt.certificate)}


def test_the_unmutated_ones_hold(made, copied, tmp_path):
    """Else a thousand refusals would say nothing."""
    assert said_by_store(copied()) == said_by_store(made[0] / "store")
    for name, text in made[1].items():
        (tmp_path / "document").write_text(text)
        assert said_by_document(name, tmp_path / "document", made[0] / "public")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_store_is_refused_or_says_the_same(made, copied, seed):
    expected, refused = said_by_store(made[0] / "store"), 0
    for number in range(STORES):
        rng = np.random.default_rng([seed, number])
        folder = copied()
        files, how = mutated_store(rng, folder)
        what = f"seed {seed}, number {number}: {files[0]}, {how}"
        try:
            said, complaint = outcome(said_by_store, folder)
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
        if complaint is None:
            assert said == expected, what
        else:
            refused += 1
            assert any(name in complaint for name in files), f"{what}: {complaint}"
    assert refused > STORES / 3


@pytest.mark.parametrize("seed", ROUNDS)
@pytest.mark.parametrize(
    "name", ["receipt", "signed", "certificate", "certificate by the theorem", "proof of growth",
             "proof of place"],
)  # fmt: skip
def test_a_damaged_document_is_refused_or_says_the_same(made, tmp_path, name, seed):
    folder, documents = made
    path, refused = tmp_path / "document.json", 0
    path.write_text(documents[name])
    expected = said_by_document(name, path, folder / "public")
    for number in range(DOCUMENTS):
        rng = np.random.default_rng([seed, number, len(name)])
        content, how = mutated_document(rng, documents[name])
        path.write_bytes(content)
        what = f"{name}, seed {seed}, number {number}, {how}"
        try:
            said, complaint = outcome(said_by_document, name, path, folder / "public")
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
        if complaint is None:
            # Without its evidence a receipt says less, and says so; nothing else may change.
            less = {key: value for key, value in said.items() if value is not False}
            assert less == {key: expected[key] for key in less}, what
        else:
            refused += 1
    assert refused > DOCUMENTS / 3


def test_damage_on_the_command_line(made, copied, tmp_path):
    """One line on stderr and the code 2, or the answer that it was."""
    documents, refused = made[1], 0

    def look(line, what):
        result = CliRunner().invoke(app, line.split())
        assert result.exit_code in (0, 2), (what, result.exception)
        if result.exit_code:
            assert result.output.startswith("pilu: "), what
            lines = result.output.strip().splitlines()  # the store has receipts to deliver
            assert len([line for line in lines if "not delivered yet" not in line]) == 1, what
        return result.exit_code == 2

    for number in range(8):
        store = copied()
        files, how = mutated_store(np.random.default_rng([99, number]), store)
        refused += look(f"verify {store}", f"number {number}: {files[0]}, {how}")
    for number, (name, text) in enumerate(documents.items()):
        content, how = mutated_structure(np.random.default_rng([99, number]), text)
        (tmp_path / "document.json").write_bytes(content)
        refused += look(f"verify {tmp_path}/document.json", f"number {number}: {name}, {how}")
    assert refused >= 10


@pytest.mark.parametrize(
    "value", [None, [], {}, -(10**400)], ids=["null", "a list", "a record", "huge"]
)
def test_an_accountant_with_junk_for_its_split(made, value):
    record = json.loads(made[1]["certificate by the theorem"])
    record["accountant"]["delta_split"] = value
    with pytest.raises(CertificateMismatch):
        verify(Certificate.from_json(json.dumps(record)))


@pytest.mark.parametrize("depth", [20, 300, 600, 900, 100_000])
def test_a_certificate_with_a_deep_nest_in_it(made, depth):
    """`versions` is for information only: what is in it is not compared with anything."""
    record = json.loads(made[1]["certificate"])
    record["versions"]["extra"] = "here"
    text = json.dumps(record).replace('"here"', "[" * depth + "]" * depth)
    said, complaint = outcome(lambda: verify(Certificate.from_json(text)))
    assert said == verify(Certificate.from_json(made[1]["certificate"])) or complaint


@pytest.mark.parametrize("start", [b'{"arrays":', b'{"certificate":'], ids=["state", "entry"])
def test_a_body_that_became_null(copied, start):
    """SQLite hands out NULL for a damaged record, whatever the schema says."""
    store = copied()
    content = bytearray((store / "ledger.sqlite").read_bytes())
    body = content.index(start)
    content[body - 2 : body] = bytes(2)  # the type of the value that begins here
    (store / "ledger.sqlite").write_bytes(content)
    _, complaint = outcome(said_by_store, store)
    assert "ledger.sqlite" in complaint


def test_a_complaint_of_sqlite_that_is_no_text(copied):
    """SQLite quotes the name in a damaged schema, whatever bytes are in it."""
    store = copied()
    content = (store / "ledger.sqlite").read_bytes()
    assert content.count(b"tableentries") == 1
    damaged = content.replace(b"tableentriesentries", b"tableentri\xab\xabentries")
    (store / "ledger.sqlite").write_bytes(damaged)
    _, complaint = outcome(said_by_store, store)
    assert "ledger.sqlite" in complaint


def test_a_long_complaint_of_sqlite_is_one_line(copied):
    """A page of pointers, one of which leads nowhere: SQLite has something to say of each."""
    store = copied()
    content = bytearray((store / "ledger.sqlite").read_bytes())
    pages = [k for k in range(4096, len(content), 4096) if content[k] == 5]
    assert pages  # interior pages of a table; their pointers to cells begin at byte 12
    for page in pages:
        content[page + 12] ^= 0x40
    (store / "ledger.sqlite").write_bytes(content)
    _, complaint = outcome(said_by_store, store)
    assert "ledger.sqlite" in complaint
