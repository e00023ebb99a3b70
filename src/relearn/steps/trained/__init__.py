"""Parts shared by steps of several studies: clocks, seeds, comparison with a constant prediction, losses. One idea per file."""
