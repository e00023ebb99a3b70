"""The parts that steps of several studies share: clocks, seeds, the comparison with a constant answer, losses. One idea per file."""
