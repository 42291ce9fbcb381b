"""Links that leave docs/: files become downloads (MyST's own doing), folders of the repository plain text.

Pages are read in the repository too, where ``[results](../benchmarks/results)`` opens a folder. A built site has
no such folder to open.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class FoldersAsText(SphinxTransform):
    """Replaces links to folders by their text, before MyST looks for a page of that name."""

    default_priority = 1

    def apply(self, **_: Any) -> None:
        """Walk the links of one page."""
        page = Path(self.env.doc2path(self.env.docname)).parent
        for link in list(self.document.findall(addnodes.pending_xref)):
            target = str(link.get("reftarget", ""))
            if target and (page / target).is_dir():
                link.replace_self(nodes.inline("", "", *link.children))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_transform(FoldersAsText)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
