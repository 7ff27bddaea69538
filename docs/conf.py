"""The site: `make docs`. The root of the repository is its source, so that links between pages,
and from pages to files of the code, are the same on the site as in the repository.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "src")]

project = "pilu"
author = "The pilu developers"
copyright = "The pilu developers. BSD-3-Clause"

root_doc = "docs/index"
source_suffix = {".md": "markdown"}
FOLDERS = {"docs", "experiments"}
include_patterns = ["docs/*.md", "docs/**/*.md", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
include_patterns += ["SECURITY.md", "experiments/README.md"]
exclude_patterns = [p.name for p in ROOT.iterdir() if p.is_dir() and p.name not in FOLDERS]
exclude_patterns += ["docs/_site", "docs/_static", "experiments/[!R]*"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "_site",
]

# Pages. Every heading down to level 4 has the anchor that it has in the repository.
myst_heading_anchors = 4
suppress_warnings = [
    "myst.header",  # generated results begin their sections at level 3
    "ref.python",  # a type such as `path` is no link, though attributes have that name
]

# The reference: docstrings, read by `_site.docstrings`.
default_role = "code"
autodoc_default_options = {
    "members": True,
    "inherited-members": "object,Exception,tuple",
}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_rtype = False
python_maximum_signature_line_length = 80
add_module_names = False
toc_object_entries_show_parents = "hide"

# Nothing on a page comes from another host: `_site.outside` checks every page that is built.
html_theme = "pydata_sphinx_theme"
html_title = "pilu"
html_static_path = ["_static"]
html_extra_path = ["_site/index.html"]  # leads to docs/index.html
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "pilu"},
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "search_bar_text": "Search",
}

# `make docs-links` asks every outside address.
linkcheck_timeout = 20
linkcheck_workers = 4
linkcheck_ignore = [r"https?://(127\.0\.0\.1|localhost)", r"https://[\w.]*example\.(org|com)"]
