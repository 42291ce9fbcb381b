"""How Sphinx builds these pages: ``sphinx-build -W --keep-going docs docs/_build``."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from pencil import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "pencil"
author = "The pencil authors"
copyright = "The pencil authors, Apache-2.0"
version = release = __version__
_project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
repository = _project.get("urls", {}).get("Repository")  # where links to the README lead

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_click",
    "sphinx_copybutton",
    "bundled_mathjax",
    "dashes",
    "outside_links",
    "settings",
]
exclude_patterns = ["_build"]
smartquotes = False  # --help must stay --help
highlight_language = "text"  # of indented blocks

myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_dmath_allow_space = False  # "$5 and $6" is no formula
myst_dmath_allow_digits = False
myst_heading_anchors = 3
copybutton_exclude = ".linenos, .gp, .go"

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
python_maximum_signature_line_length = 90

html_theme = "furo"
html_title = f"pencil {__version__}"
html_static_path = ["_static"]
html_css_files = ["pencil.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#8ab8f0", "color-brand-content": "#8ab8f0"},
}
