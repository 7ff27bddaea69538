"""The Merkle log against published roots, and against the definition written out another way."""

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilu.exceptions import LedgerMismatch
from pilu.store.merkle import (
    Head,
    Peaks,
    check_consistency,
    check_inclusion,
    consistency,
    head,
    inclusion,
    inclusions,
    leaf,
)

# The reference test data of certificate transparency: eight entries, and the root of the first n.
ENTRIES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)

entries = st.lists(st.binary(max_size=8), min_size=1, max_size=40)


def leaves_of(log):
    return [leaf(entry) for entry in log]


def by_levels(log):
    """The root from below: pairs are joined level by level, an odd one goes up as it is."""
    level = [hashlib.sha256(b"\0" + entry).digest() for entry in log]
    while len(level) > 1:
        pairs = [level[k : k + 2] for k in range(0, len(level), 2)]
        level = [
            hashlib.sha256(b"\1" + pair[0] + pair[1]).digest() if len(pair) == 2 else pair[0]
            for pair in pairs
        ]
    return level[0]


@pytest.mark.parametrize("n", range(1, 9))
def test_published_roots(n):
    assert head(leaves_of(ENTRIES[:n])).root.hex() == ROOTS[n - 1]


def test_an_empty_log():
    assert head([]).root.hex() == hashlib.sha256(b"").hexdigest()
    check_consistency(head([]), head(leaves_of(ENTRIES)), [])


@given(entries)
def test_roots_from_below(log):
    assert head(leaves_of(log)).root == by_levels(log)


@given(entries, st.data())
def test_every_entry_is_included_and_no_other(log, data):
    place = data.draw(st.integers(0, len(log) - 1))
    leaves, noted = leaves_of(log), head(leaves_of(log))
    proof = inclusion(leaves, place)
    assert len(proof) <= max(len(log) - 1, 1).bit_length()
    check_inclusion(log[place], place, proof, noted)
    with pytest.raises(LedgerMismatch):
        check_inclusion(log[place] + b"!", place, proof, noted)
    with pytest.raises(LedgerMismatch):
        check_inclusion(log[place], place, [*proof, leaves[0]], noted)
    with pytest.raises(LedgerMismatch):
        check_inclusion(log[place], len(log), proof, noted)
    if proof:
        with pytest.raises(LedgerMismatch):
            check_inclusion(log[place], place, proof[:-1], noted)


@given(entries, st.data())
def test_a_log_that_only_grew_is_consistent(log, data):
    older = data.draw(st.integers(0, len(log)))
    leaves = leaves_of(log)
    noted, now = head(leaves[:older]), head(leaves)
    proof = consistency(leaves, older)
    check_consistency(noted, now, proof)
    if proof:
        with pytest.raises(LedgerMismatch):
            check_consistency(noted, now, proof[:-1])
        with pytest.raises(LedgerMismatch):
            check_consistency(noted, now, [*proof, proof[0]])
    if older > 0:
        with pytest.raises(LedgerMismatch):
            check_consistency(replace(noted, root=leaf(b"another")), now, proof)
        with pytest.raises(LedgerMismatch):
            check_consistency(noted, replace(now, root=leaf(b"another")), proof)


@given(entries, st.data())
def test_edit_deletion_reordering_and_truncation_are_noticed(log, data):
    """Whatever proof the forger takes from the forged log."""
    leaves = leaves_of(log)
    noted = head(leaves)
    place = data.draw(st.integers(0, len(log) - 1))
    edited = [*log[:place], log[place] + b"!", *log[place + 1 :]]
    dropped = log[:place] + log[place + 1 :]
    swapped = [*log]
    swapped[place], swapped[place - 1] = log[place - 1], log[place]
    for forged in (edited, [*dropped, b"new"], swapped, log[:-1], [*edited, b"new"]):
        if forged[: len(log)] == log:
            continue  # nothing was forged
        others = leaves_of(forged)
        proofs = [[], consistency(others, min(len(log), len(others)))]
        for proof in proofs:
            with pytest.raises(LedgerMismatch):
                check_consistency(noted, head(others), proof)


# RFC 6962, section 2.1, word by word: MTH(D[n]) and PATH(m, D[n]) split at the largest power of two


def mth(log):
    if not log:
        return hashlib.sha256().digest()
    if len(log) == 1:
        return hashlib.sha256(b"\x00" + log[0]).digest()
    k = split_at(len(log))
    return hashlib.sha256(b"\x01" + mth(log[:k]) + mth(log[k:])).digest()


def path(m, log):
    if len(log) == 1:
        return []
    k = split_at(len(log))
    if m < k:
        return [*path(m, log[:k]), mth(log[k:])]
    return [*path(m - k, log[k:]), mth(log[:k])]


def split_at(n):
    return max(2**power for power in range(10) if 2**power < n)


LONG = [f"entry {k}".encode() for k in range(70)]


@pytest.mark.parametrize("n", range(71))
def test_proofs_of_all_entries_at_once_are_those_of_the_rfc(n):
    leaves = leaves_of(LONG[:n])
    assert head(leaves) == Head(n, mth(LONG[:n]))
    proofs = inclusions(leaves)
    assert proofs == [path(m, LONG[:n]) for m in range(n)]
    assert proofs == [inclusion(leaves, m) for m in range(n)]
    for m, proof in enumerate(proofs):
        check_inclusion(LONG[m], m, proof, head(leaves))


def test_a_log_that_grows_one_by_one_has_the_heads_of_the_rfc():
    peaks = Peaks()
    for n in range(71):
        assert peaks.head == Head(n, mth(LONG[:n]))
        assert len(peaks.roots) == n.bit_count()
        if n < 70:
            peaks = peaks.followed_by(leaf(LONG[n]))


@pytest.mark.parametrize("n", range(1, 71))
def test_a_proof_is_for_one_place_only(n):
    leaves = leaves_of(LONG[:n])
    for m, proof in enumerate(inclusions(leaves)):
        for other in {0, n // 2, n - 1, m ^ 1} - {m}:
            with pytest.raises(LedgerMismatch):
                check_inclusion(LONG[m], other, proof, head(leaves))


def test_heads_are_written_and_read():
    noted = head(leaves_of(ENTRIES))
    assert Head.parse(str(noted)) == noted
    assert str(noted) == f"8:{ROOTS[-1]}"


@pytest.mark.parametrize(
    "text", ["", "8", f"x:{ROOTS[0]}", "8:12", f"8:{'g' * 64}", f"-1:{ROOTS[0]}"]
)
def test_other_texts_are_no_heads(text):
    with pytest.raises(LedgerMismatch, match="a head must"):
        Head.parse(text)


def test_places_outside_of_the_log():
    with pytest.raises(LedgerMismatch, match=r"place must be in \[0, 7\]"):
        inclusion(leaves_of(ENTRIES), 8)
    with pytest.raises(LedgerMismatch, match=r"older must be in \[0, 8\]"):
        consistency(leaves_of(ENTRIES), 9)
