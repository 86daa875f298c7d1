# The site: scripts/build-site. Sphinx with MyST reads these pages as they are on the repository's page; a broken link is an error.
project = "tandem"
author = "tandem maintainers"
copyright = "tandem maintainers, Apache-2.0"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "tandem"
html_copy_source = False
