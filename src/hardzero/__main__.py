"""Run the command line as ``python -m hardzero``."""

import sys

from hardzero.cli import main

if __name__ == "__main__":
    sys.exit(main())
