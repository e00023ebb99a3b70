"""``python -m relearn.gpu_check``: compares every step on a CUDA device in fp32 and bf16 with the CPU, and runs further checks.

In a checkout it selects the cheapest run of every step at the scale of params.yaml; a pack (`relearn pack --check`) contains
the selection. Output: a table, ``check/check.json``, and the records in ``check/``. An interrupted check can be continued.
Exit status: 0 if everything is within the limits, 1 if not, 4 without a CUDA device. ``--rehearse`` runs everything on the CPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from relearn.gpu_check import checks, selection
from relearn.runs.exit_codes import RESOURCE
from relearn.runs.node.machine import cores, cuda_memory_mb


def main() -> int:
    """Run the checks, print the table and write check.json."""
    began = time.monotonic()
    parser = argparse.ArgumentParser(prog="python -m relearn.gpu_check", description=__doc__)
    parser.add_argument("target", nargs="*", help="studies or study/step; default: every step")
    parser.add_argument(
        "--rehearse",
        action="store_true",
        help="the CPU in the device's place: tests the check, not the device",
    )
    parser.add_argument("--minutes", type=float, help="stop cleanly after so many")
    parser.add_argument("--jobs", type=int, default=cores(), help="jobs at once")
    parser.add_argument("--jobs-per-device", type=int, default=4)
    parser.add_argument("--json", type=Path, default=Path("check/check.json"))
    args = parser.parse_args()
    memory = () if args.rehearse else cuda_memory_mb()
    if not memory and not args.rehearse:
        print(checks.WOULD, end="")
        print("no CUDA device here; --rehearse runs the same on the CPU")
        return RESOURCE
    chosen, jobs = selection.select(args.target)
    limit = float("inf") if args.minutes is None else began + args.minutes * 60 - 30
    rows = checks.run(
        jobs, chosen, "cpu" if args.rehearse else "cuda", memory, args.jobs, args.jobs_per_device, limit
    )
    checks.write(rows, args.json, rehearsed=args.rehearse)
    print(checks.table(rows, rehearsed=args.rehearse))
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ValueError as error:
        sys.exit(f"gpu_check: {error}")
