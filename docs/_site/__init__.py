"""What the site adds to Sphinx: generated pages of reference, and a check of what was built."""

import re
from pathlib import Path

from . import commands, docstrings, http, outside


def setup(app):
    """Sphinx calls this."""
    docstrings.setup(app)
    app.connect("source-read", fill_in)
    app.connect("build-finished", outside.check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


GENERATED = {"<!-- commands -->": commands.markdown, "<!-- calls -->": http.markdown}


# Pages that are still being written: a line of navigation without its page is left out.
AWAITED = {
    "tutorials": ["forget_a_customer", "text_classifier", "desk_for_a_team", "audit_a_model"],
    "how-to": [
        "choose_epsilon_and_delta",
        "keep_a_scaler",
        "erase_first",
        "batches",
        "restore_a_backup",
    ],
    "explanation": ["certificates", "choosing_a_method", "exposure_in_words"],
    ".": ["officers", "margins", "formats", "dependencies"],
    "..": ["SECURITY"],
}


def fill_in(app, docname, source):
    """Put a generated text where a page has its mark."""
    for folder, name in ((folder, name) for folder, names in AWAITED.items() for name in names):
        if not Path(app.srcdir, "docs", folder, f"{name}.md").exists():
            source[0] = re.sub(rf"(?m)^(\.\./)*{name}\n", "", source[0])
    if docname.startswith("docs/reference/"):
        for mark, generate in GENERATED.items():
            if mark in source[0]:
                source[0] = source[0].replace(mark, generate())
