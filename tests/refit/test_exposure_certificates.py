"""What certificates say of earlier releases with shaped noise."""

import json

import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import pilu
from pilu import Certificate, CertificateMismatch, Forgetful
from pilu.exceptions import PartOfPersonWarning
from refit.exposure_tables import labels, pairs, table


def shaped(**options):
    X, y = table()
    model = Forgetful(Ridge(), random_state=0, **{"noise_scale": 1.0, **options})
    return model.fit(X[:30], y[:30], subjects=pairs()[:30])


def test_a_certificate_counts_the_releases_that_had_a_person():
    X, y = table()
    model = shaped()
    first = model.unlearn(subject="p0")  # after the fit
    added = model.add(X[30:34], y[30:34], subjects=["p15", "p15", "p2", "p16"])
    corrected = model.correct(X[5:6] + 1, y[5:6], rows=[5])  # of p2, who has three rows
    second = model.unlearn(subjects=["p1", "p15", "p2"])
    third = model.unlearn(subject="p16")
    counts = [
        {tuple(one["rows"]): one["n_releases"] for one in c.earlier_releases["people"]}
        for c in (first, added, corrected, second, third)
        if c.earlier_releases is not None
    ]
    # A person is in the release of the fit, and in each one since: fit, p0 gone, added, corrected.
    assert added.earlier_releases is None
    assert counts == [
        {(0, 1): 1},
        {},  # a correction forgets no person as a whole
        {(2, 3): 4, (30, 31): 2, (4, 5, 32): 4},
        {(33,): 3},
    ]


def test_a_person_who_is_forgotten_row_by_row_is_counted_at_the_end():
    model = shaped()
    with pytest.warns(PartOfPersonWarning, match="row 4 is 1 of the 2 rows"):
        first = model.unlearn(rows=[4])
    assert first.earlier_releases["people"] == ()
    (person,) = model.unlearn(rows=[5]).earlier_releases["people"]
    assert (person["rows"], person["n_releases"]) == ((5,), 2)


def test_more_releases_tell_more():
    model = shaped()
    once = model.unlearn(subject="p0").earlier_releases["people"][0]["epsilon"]
    assert once == pytest.approx(shaped().exposure(subject="p0").epsilon[0], rel=0.2)
    model = shaped()
    for other in ("p5", "p6", "p7"):
        model.unlearn(subject=other)
    (person,) = model.unlearn(subject="p0").earlier_releases["people"]
    assert person["n_releases"] == 4
    assert person["epsilon"] > once


def test_without_shaped_noise_nothing_is_said_of_earlier_releases():
    certificate = shaped(noise_scale=None).unlearn(subject="p0")
    assert certificate.earlier_releases is None
    assert not any(words.startswith("Rows ") for words in certificate.words)
    assert any(words.startswith("Rows ") for words in shaped().unlearn(subject="p0").words)


def test_who_has_no_bound_has_none_in_the_certificate():
    X, y = table()
    classes = labels(y)
    classes[7] = "maybe"
    model = Forgetful(LogisticRegression(), noise_scale=5.0).fit(X, classes)
    certificate = model.unlearn([7])
    (person,) = certificate.earlier_releases["people"]
    assert person["epsilon"] is None
    assert any("nothing bounds" in words for words in certificate.words)
    pilu.verify(Certificate.from_json(certificate.to_json()))


def test_earlier_releases_survive_a_file_and_are_left_out_for_publication():
    certificate = shaped(exposure_delta=1e-4).unlearn(subjects=["p0", "p3"])
    again = Certificate.from_json(certificate.to_json())
    assert again.earlier_releases == certificate.earlier_releases
    assert {p["delta"] for p in again.earlier_releases["people"]} == {1e-4}
    assert again.words == certificate.words
    assert pilu.verify(again) == pilu.verify(certificate)
    assert certificate.without_evidence().earlier_releases is None
    assert again.sha256 == certificate.sha256


def alterations(earlier):
    person = earlier["people"][0]
    yield "epsilon", lambda e: e["people"][0].update(epsilon=person["epsilon"] / 2)
    yield "no epsilon", lambda e: e["people"][0].update(epsilon=None)
    yield "releases", lambda e: e["people"][0].update(n_releases=person["n_releases"] + 1)
    yield "rows", lambda e: e["people"][0].update(rows=[29])
    smaller = [value / 4 for value in person["squared_shifts"]]
    yield "shifts", lambda e: e["people"][0].update(squared_shifts=smaller)
    yield "excesses", lambda e: e["people"][0].update(excesses=[0.0] * len(smaller))
    yield "delta", lambda e: e.update(delta=0.5)
    yield "people", lambda e: e.update(people=[])
    yield "preprocessing", lambda e: e.update(covers_preprocessing=not e["covers_preprocessing"])


def test_altered_numbers_of_earlier_releases_are_refused():
    certificate = shaped().unlearn(subject="p0")
    names = []
    for name, change in alterations(json.loads(certificate.to_json())["evidence"]["earlier"]):
        record = json.loads(certificate.to_json())
        change(record["evidence"]["earlier"])
        with pytest.raises(CertificateMismatch):
            pilu.verify(Certificate.from_json(json.dumps(record)))
        names.append(name)
    assert len(names) == 9


def test_a_forger_who_hashes_again_still_needs_a_true_epsilon():
    certificate = shaped().unlearn(subject="p0")
    evidence = json.loads(certificate.to_json())["evidence"]
    evidence["earlier"]["people"][0]["epsilon"] /= 2
    del evidence["fields_sha256"]
    with pytest.raises(CertificateMismatch, match="earlier releases need a larger epsilon"):
        pilu.verify(certificate.resting_on(evidence))
    evidence["earlier"]["people"][0]["epsilon"] = None
    with pytest.raises(CertificateMismatch, match="an epsilon of earlier releases is missing"):
        pilu.verify(certificate.resting_on(evidence))


@pytest.mark.parametrize("scales", [(None, 1.0), (1.0, None)])
def test_earlier_releases_without_shaped_noise_are_not_left_out(scales):
    X, y = table()
    model = Forgetful(Ridge(), noise_scale=scales[0], random_state=0).fit(X, y)
    model.set_params(noise_scale=scales[1])
    model.add(X[:1], y[:1])  # the second release that has row 3
    earlier = model.unlearn([3]).earlier_releases
    if earlier is not None:
        (person,) = earlier["people"]
        assert person["n_releases"] == 2
        assert person["epsilon"] is None or person["epsilon"] > 10  # scores show the row
