"""A program in place of `relearn`: it makes a run with its record, or fails, or works until it is stopped.

Its words are those of a job; the first one says how it behaves.
"""

import json
import sys
import time
from pathlib import Path

from relearn.runs import interrupt, record

kind, study, step, run_settings, *rest = sys.argv[1:]
words = dict(zip(rest[::2], rest[1::2], strict=True))
inputs = {"data": [Path(path) for path in json.loads(words["--inputs"])]}
record.install_signal_handlers()
with open("calls.txt", "a") as calls:
    calls.write(f"{words['--out']}\n")
with record.Run(
    words["--out"],
    study=study,
    paper="paper",
    step=step,
    labels={},
    scale="mini",
    seed=0,
    settings=json.loads(run_settings),
    inputs=inputs if inputs["data"] else {},
    code_version="c0de",
) as run:
    if kind == "fails" and not Path("mended").exists():
        raise ValueError("no such thing")
    if kind == "long" and not Path("quick").exists():
        (run.work / "checkpoint.json").write_text("{}")
        for number in range(10_000):
            time.sleep(0.02)
            run.log(number, loss=1.0)
            interrupt.check()
    run.output("weights.bin").write_bytes(words["--out"].encode() * 10)
    run.finish({"accuracy_frac": 0.5})
