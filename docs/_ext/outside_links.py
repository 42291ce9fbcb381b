"""Links that leave docs/: files become downloads (by MyST), folders of the repository plain text.

Pages are read in the repository too, where ``[results](../benchmarks/results)`` opens a folder. A built site has
no such folder to open. A link to the README becomes one to the repository if ``[project.urls]`` in pyproject.toml has
its address, and plain text if not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

README = Path(__file__).resolve().parents[2] / "README"


class OutsideLinks(SphinxTransform):
    """Replaces links to folders and to the README, before MyST looks for a page of that name."""

    default_priority = 1

    def apply(self, **_: Any) -> None:
        """Walk the links of one page."""
        page = Path(self.env.doc2path(self.env.docname)).parent
        for link in list(self.document.findall(addnodes.pending_xref)):
            if not link.get("reftarget"):
                continue
            target = (page / link["reftarget"]).resolve()
            is_readme = target.with_suffix("") == README  # MyST leaves the suffix of a page out
            if is_readme and self.config.repository:
                link.replace_self(nodes.reference("", "", *link.children, refuri=self.config.repository))
            elif is_readme or target.is_dir():
                link.replace_self(nodes.inline("", "", *link.children))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_config_value("repository", None, "env", frozenset({str, type(None)}))
    app.add_transform(OutsideLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
