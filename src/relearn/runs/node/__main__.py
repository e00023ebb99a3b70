"""``python -m relearn.runs.node``, called by run.sh of a pack: unpack the data once, then run the jobs.

``--check`` runs ``relearn.gpu_check`` instead, in a separate process.
"""

import subprocess
import sys
from pathlib import Path

from relearn.runs import exit_codes
from relearn.runs.atomic_files import digest
from relearn.runs.node import driver, parts

PARTS, UNPACKED = "*.data.*.part", Path("data.unpacked")


def main() -> int:
    """Unpack the parts of data into the current folder unless these very parts have been, and call the driver.

    Parts are told apart by their bytes: unpacking the same ones again would put back the checkpoints with which they came.
    """
    found = sorted(Path().glob(PARTS))
    state = "".join(f"{part.name} {digest(part)}\n" for part in found)
    if found and not (UNPACKED.exists() and UNPACKED.read_text() == state):
        print(f"{len(parts.read(found, Path()))} files of data", file=sys.stderr)
        UNPACKED.write_text(state)
    if sys.argv[1:2] == ["--check"]:
        return subprocess.run(
            [sys.executable, "-m", "relearn.gpu_check", *sys.argv[2:]], check=False
        ).returncode
    return driver.main()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ValueError, OSError) as error:
        print(f"run.sh: {error}", file=sys.stderr)
        sys.exit(exit_codes.USE)
