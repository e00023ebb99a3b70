"""``python -m relearn.runs.node``, called by run.sh of a pack: unpack the data once, then run the jobs.

``--check`` runs ``relearn.gpu_check`` instead, in a separate process.
"""

import subprocess
import sys
from pathlib import Path

from relearn.runs.node import driver, parts

PARTS, UNPACKED = "*.data.*.part", Path("data.unpacked")


def main() -> int:
    """Unpack the parts of data into the current folder if that is not done yet, and call the driver."""
    if not UNPACKED.exists() and (found := sorted(Path().glob(PARTS))):
        print(f"{len(parts.read(found, Path()))} files of data", file=sys.stderr)
        UNPACKED.touch()
    if sys.argv[1:2] == ["--check"]:
        return subprocess.run(
            [sys.executable, "-m", "relearn.gpu_check", *sys.argv[2:]], check=False
        ).returncode
    return driver.main()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ValueError, OSError) as error:
        sys.exit(f"run.sh: {error}")
