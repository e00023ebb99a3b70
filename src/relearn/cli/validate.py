"""relearn validate: check whether params.yaml can run.

``relearn validate [--params FILE] [--scale SCALE]`` prints the number of values in force and which values of
the file the overlay overrides, or every problem on a line of its own (exit code 2). ``relearn validate --schema``
prints the JSON schema of params.yaml, for an editor.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from pathlib import Path

from relearn.params import reading as params
from relearn.studies import parameters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--params", default=Path("params.yaml"), type=Path, help="the parameter file; overlays are in params/"
    )
    add("--scale", help=f"one of {', '.join(params.SCALES)}; by default the file's own")
    add("--schema", action="store_true", help="print the JSON schema of params.yaml and end")


def main(args: argparse.Namespace) -> int:
    """Exit code 0 if the parameters can run, 2 if they cannot."""
    if args.schema:
        print(json.dumps(parameters.json_schema(), indent=2))
        return 0
    try:
        values = parameters.load(args.params, scale=args.scale)
    except params.ParamsError as error:
        print("\n".join(error.problems), file=sys.stderr)
        return 2
    print(f"ok: {args.params} at scale {values['scale']}: {len(params.leaves(values))} values")
    print(*_hidden(args.params, values["scale"]), sep="\n", end="")
    return 0


def _hidden(path: Path, scale: str) -> list[str]:
    """The values that the overlay overrides, a paragraph for each section."""
    keys = [key.split(".", 1) for key in params.hidden_by_overlay(path, scale)]
    if not keys:
        return []
    sections: dict[str, list[str]] = {}
    for section, *rest in keys:
        sections.setdefault(section, []).append(rest[0] if rest else section)
    overlay = params.overlay_file(path, scale)
    return [
        f"{overlay} overrides {len(keys)} values of {path}:",
        *(
            textwrap.fill(
                f"{section}: {', '.join(names)}",
                width=120,
                initial_indent="  ",
                subsequent_indent="    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
            for section, names in sections.items()
        ),
        "",
    ]
