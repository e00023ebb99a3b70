"""`python -m relearn` is `relearn`."""

import sys

if __name__ == "__main__":
    try:
        from relearn.cli import main
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(main())
