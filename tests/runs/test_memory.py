"""Out of memory: told apart from other errors."""

from __future__ import annotations

import pytest
import torch

from relearn.runs.memory import out_of_memory, peak


def test_torch_s_own_words_are_known() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50)
    assert out_of_memory(caught.value)
    assert not out_of_memory(RuntimeError("shape mismatch")) and not out_of_memory(
        ValueError("out of memory")
    )
    assert peak().endswith("MiB of host memory")
