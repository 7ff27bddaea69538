"""docs/formats.md has the numbers of the source, and each older one has a file in the tests."""

import ast
import io
import re
import tarfile
from functools import cache
from pathlib import Path

import pytest

import pilu
from pilu.certify import certificate
from pilu.desk import backups, receipt, refit_release, release, remembering, signing
from pilu.service import asgi, database, opendsr
from pilu.store import log, store

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "formats.md").read_text()
PACKAGE = Path(pilu.__file__).parent
NUMBERED = re.compile(r"pilu\.[a-z.]+/\d+|urn:pilu:[a-z]+:\d+")
GONE = {"pilu.store/1"}  # written once, not read any more
WRITTEN = {
    "store/store.py": {store.FORMAT},
    "certify/certificate.py": {certificate.SCHEMA},
    "desk/receipt.py": {receipt.SCHEMA},
    "desk/signing.py": {signing.PREDICATE},
    "desk/refit_release.py": {refit_release.SCHEMA},
    "desk/release.py": {release.SCHEMA},
    "store/log.py": {log._GROWTH, log._PLACE},
    "desk/backups.py": {backups.FORMAT},
    "desk/remembering.py": {remembering.FORMAT},
}


@cache
def in_source():
    """Numbers in the strings of the source, by module; messages with a number in them as well."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for number in NUMBERED.findall(node.value):
                    found.setdefault(number, set()).add(path.relative_to(PACKAGE).as_posix())
    return found


def rows_of_numbers():
    """Cells of the table: what is written, what is also read, and the module."""
    table = PAGE.partition("## Numbers")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def content_of(path):
    """All bytes of a file, of the members of an archive, and of archives in it."""
    return b"".join(_members(path.read_bytes()))


def _members(content):
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for member in archive.getmembers():
                if member.isfile():
                    yield from _members(archive.extractfile(member).read())
    except tarfile.TarError:
        yield content


def test_every_number_of_the_source_is_on_the_page_and_no_other():
    assert set(NUMBERED.findall(PAGE)) == set(in_source()) >= GONE


def test_what_is_written_now_is_what_the_modules_write():
    found = {}
    for _, now, _, modules in rows_of_numbers():
        for number in NUMBERED.findall(now):
            (module,) = re.findall(r"`([a-z_/]+\.py)`", modules)
            found.setdefault(module, set()).add(number)
    assert found == WRITTEN


def test_what_is_also_read_is_every_other_number():
    read = {n for _, _, also, _ in rows_of_numbers() for n in NUMBERED.findall(also)}
    assert read == set(in_source()) - set().union(*WRITTEN.values()) - GONE


def test_the_numbers_of_the_service_are_on_the_page():
    assert f"version {database.VERSION}, in its table `version`" in PAGE
    assert f"`/opendsr/v2`, api_version {opendsr.VERSION}" in PAGE
    assert f"`/v{asgi.VERSION}` in the path" in PAGE
    assert f"is of version {asgi.VERSION} " in PAGE


@pytest.mark.parametrize("number", sorted(in_source()))
def test_a_file_of_every_number_is_in_the_tests(number):
    kept = [path for path in TESTS.rglob("formats/*") if path.suffix in (".xz", ".json")]
    sought = number.encode()
    if number.startswith("urn:"):
        sought = b"application/vnd.in-toto+json"
    assert any(sought in content_of(path) for path in kept)
