"""Errors of built pages: what they load from other hosts, and links that lead nowhere."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "link": "href",
    "object": "data",
    "video": "src",
}
LINKS_ONLY = {"canonical", "next", "prev", "index", "search", "author", "license"}


class Page(HTMLParser):
    """What a page loads, where it links to, and which places it has."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.links, self.places = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Collect addresses and ids."""
        found = dict(attrs)
        if "id" in found:
            self.places.add(found["id"])
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in LOADS and found.get(LOADS[tag]) and found.get("rel") not in LINKS_ONLY:
            self.loads.append(found[LOADS[tag]])


def is_outside(address):
    """Whether another host would be asked."""
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in ("http", "https")


def complaints(folder):
    """Everything that is wrong with the pages of a folder."""
    folder = Path(folder).resolve()
    paths = (path for path in folder.rglob("*.html") if "_static" not in path.parts)
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in paths}
    for path, page in pages.items():
        where = path.relative_to(folder)
        for address in page.loads:
            if is_outside(address):
                yield f"{where}: loads {address} from another host"
            elif not address.startswith("data:") and not target(path, address).exists():
                yield f"{where}: loads {address}, which is not there"
        for address in page.links:
            if urlsplit(address).scheme or is_outside(address):
                continue
            end, place = target(path, address), unquote(urlsplit(address).fragment)
            if not end.exists():
                yield f"{where}: links to {address}, which is not there"
            elif place and end in pages and place not in pages[end].places:
                yield f"{where}: links to {address}, a place that the page does not have"
    for path in folder.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        for sign in ("url(http", 'url("http', "url('http", "url(//", "@import url(http"):
            if sign in text:
                yield f"{path.relative_to(folder)}: loads a file from another host ({sign})"


def target(path, address):
    """The file that an address on a page names."""
    name = unquote(urlsplit(address).path)
    return (path.parent / name).resolve() if name else path


def check(app, exception):
    """After a build of pages."""
    from sphinx.errors import SphinxError  # the rest needs no Sphinx

    if exception is None and app.builder.name == "html":
        found = list(complaints(app.outdir))
        if found:
            raise SphinxError("\n".join(found))
