"""The table that ``relearn robustness`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relearn.studies.robustness.steps.image_sets import Row
    from relearn.studies.robustness.steps.measured import Measured


def table(found: Measured) -> str:
    """One line per number with its protocol; the severities of a corruption are averaged into one line."""
    lines = [("set", "images", "accuracy, %", "protocol")]
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in found.rows:
        groups.setdefault((row.set, row.corruption or ""), []).append(row)
    for (name, corruption), rows in groups.items():
        mean = sum(row.accuracy_frac for row in rows) / len(rows)
        levels = "severity " + ",".join(str(row.severity) for row in rows) if corruption else ""
        title = " ".join(filter(None, (name, corruption, levels)))
        lines.append((title, str(rows[0].samples_count), f"{100 * mean:.2f}", str(rows[0].protocol)))
    for one in found.attacks:
        how = f"{one.steps} steps, {one.restarts} restarts; " if one.steps else ""
        title = f"{one.attack} {one.norm} eps {255 * one.eps:g}/255"
        lines.append(
            (title, str(one.samples_count), f"{100 * one.accuracy_frac:.2f}", f"{how}{one.protocol}")
        )
    width = [max(len(line[place]) for line in lines) for place in range(3)]
    text = [
        f"{line[0]:<{width[0]}}  {line[1]:>{width[1]}}  {line[2]:>{width[2]}}  {line[3]}".rstrip()
        for line in lines
    ]
    for name, words in (
        ("corruption_acc_frac", "mean over corruptions"),
        ("mce_frac", "mCE"),
        ("nine_gap_frac", "ImageNet-9 gap"),
    ):
        if name in found.metrics:
            text.append(f"{words}: {100 * found.metrics[name]:.2f} %")
    if found.bad:
        text.append(
            f"images that could not be decoded and were left out: {len(found.bad)}, see bad_images.csv"
        )
    return "\n".join([*text, *found.notes]) + "\n"
