"""What the site adds to Sphinx: generated pages of reference, and a check of what was built."""

from . import commands, docstrings, http, outside


def setup(app):
    """Sphinx calls this."""
    docstrings.setup(app)
    app.connect("source-read", fill_in)
    app.connect("build-finished", outside.check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


GENERATED = {"<!-- commands -->": commands.markdown, "<!-- calls -->": http.markdown}


def fill_in(app, docname, source):
    """Put a generated text where a page has its mark."""
    if docname.startswith("docs/reference/"):
        for mark, generate in GENERATED.items():
            if mark in source[0]:
                source[0] = source[0].replace(mark, generate())
