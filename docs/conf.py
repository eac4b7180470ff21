"""Sphinx configuration."""

import hardzero

project = "hardzero"
author = copyright = "hardzero developers"
version = release = hardzero.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"
numpydoc_show_class_members = False
