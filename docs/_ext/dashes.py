"""A dash between a parameter and its meaning. Typography in general is off, for it would make one of ``--help``."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx


def _set_dashes(_: Sphinx, page: nodes.document) -> None:
    for text in list(page.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" – "))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("doctree-read", _set_dashes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
