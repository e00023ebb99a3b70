"""`python -m relearn` is `relearn`."""

import sys

from relearn.cli import main

if __name__ == "__main__":
    sys.exit(main())
