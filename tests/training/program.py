"""What the tests of this folder begin with. TANDEM names the program.

    with needed():
        import torch    # exit code 3 where it is missing
"""
import contextlib
import os
import sys

TANDEM = os.environ.get("TANDEM", "build/release/tandem")


@contextlib.contextmanager
def needed():
    """Packages that are imported within: exit code 3 where one is missing or cannot be loaded."""
    try:
        yield
    except (ImportError, OSError) as missing:
        print(missing)
        sys.exit(3)
