"""The pages of results: what the tables say, with pictures that are there and small."""

import re
from pathlib import Path

import pytest
from experiments.captions import FIGURES, PLACES
from experiments.pages import PAGES
from experiments.pictures import LIMIT, packed
from experiments.store import STORES
from PIL import Image
from scipy.optimize import brentq
from scipy.stats import norm

from experiments import __main__ as everything
from experiments import page as paper
from experiments import tables

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_what_the_tables_say(page):
    """`make figures` writes it; nobody types numbers."""
    assert (DOCS / page.name).read_text(encoding="utf-8") == page.write(STORES["full"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_each_of_its_pictures_once(page):
    text = (DOCS / page.name).read_text(encoding="utf-8")
    shown = re.findall(r"!\[(.+?)\]\((.+?)\)", text)
    assert sorted(file for _, file in shown) == sorted(f"figures/{n}.webp" for n in page.pictures)
    for name in page.pictures:
        file = DOCS / "figures" / f"{name}.webp"
        assert file.stat().st_size < LIMIT
        with Image.open(file) as image:
            assert image.width <= 1100  # seen as it is: pages do not scale it down


def test_no_picture_is_kept_that_no_page_shows():
    shown = {f"{name}.webp" for page in PAGES for name in page.pictures}
    assert {path.name for path in (DOCS / "figures").iterdir()} == shown


def test_every_claim_has_its_place_in_the_paper():
    for study, claims in paper.CLAIMS.items():
        if study in FIGURES:
            found = {claim(STORES["full"], study).figure for claim in claims}
            assert found <= set(PLACES[study])


def test_table_1_is_converted_by_the_definition_of_gdp():
    """delta(eps) = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2) = 1/500, by scipy alone."""
    text = paper.about_the_paper()
    for row, (mu, printed) in paper.TABLE_1.items():

        def excess(eps, mu=mu):
            tails = norm.logcdf(-eps / mu + mu / 2), eps + norm.logcdf(-eps / mu - mu / 2)
            return 2.718281828459045 ** tails[0] - 2.718281828459045 ** tails[1] - 1 / 500

        assert f"| {row} | {mu} | {printed:.2f} | {brentq(excess, 0, 50):.2f} |" in text


def test_costs_of_the_paper_add_up():
    """Table 4 as printed: b T + b K = b (T + K), so no figure was mistyped here."""
    for size, (T, learning, unlearning, total) in tables.TABLE_4.items():
        b = 38_400 if size == "n" else size
        assert (b * T, b * 80, b * (T + 80)) == (learning, unlearning, total)


def test_large_pictures_are_refused():
    with Image.effect_noise((2000, 2000), 200) as noise, pytest.raises(ValueError, match="200,000"):
        packed(noise.convert("RGB"), "noise")


@pytest.mark.slow  # a minute: every picture and page anew
def test_figures_are_drawn_anew_to_the_byte(tmp_path, monkeypatch):
    folders = {"full": tmp_path / "docs"}
    monkeypatch.setattr(everything, "FIGURES", {"full": tmp_path / "figures"})
    monkeypatch.setattr(everything.pages, "FIGURES", {"full": tmp_path / "figures"})
    monkeypatch.setattr(everything.pages, "FOLDERS", folders)
    monkeypatch.setattr("sys.argv", ["experiments", "--figures"])
    everything.main()
    kept = [*(DOCS / page.name for page in PAGES), *(DOCS / "figures").iterdir()]
    for path in kept:
        again = folders["full"] / path.relative_to(DOCS)
        assert again.read_bytes() == path.read_bytes(), path.name
