"""split_overlap: a range of each class's pre-training images, everything else untouched, statistics of what is left."""

import pytest
import torch

from relearn.data.arrays import load_prepared


@pytest.mark.parametrize(("start", "stop"), [(0.0, 0.5), (0.25, 0.75), (0.5, 1.0)])
def test_the_range_of_each_class_by_hand(chain, start, stop):
    name = f"subset-{start}"
    chain.step("split_overlap", name, {"start": start, "stop": stop}, data="prepare/data.safetensors")
    whole = load_prepared(chain.path("prepare/data.safetensors"))
    part = load_prepared(chain.path(f"{name}/data.safetensors"))
    images, labels = whole.pretrain()
    for label in range(10):
        own = images[labels == label]
        wanted = own[int(40 * start) : int(40 * stop)]
        assert torch.equal(part.pretrain()[0][part.pretrain()[1] == label], wanted)
    kept = part.pretrain()[0].double() / 255
    assert torch.allclose(part.mean.double(), kept.mean((0, 2, 3)), atol=1e-6)
    assert torch.allclose(part.std.double(), kept.std((0, 2, 3), correction=0), atol=1e-6)
    for get in ("fine_tune", "pool", "test"):
        assert all(
            torch.equal(a, b) for a, b in zip(getattr(part, get)(), getattr(whole, get)(), strict=True)
        )
    assert part.classes == whole.classes


def test_two_halves_share_nothing_and_the_middle_shares_half(chain):
    parts = {}
    for name, start, stop in (("a", 0.0, 0.5), ("b", 0.5, 1.0), ("c", 0.25, 0.75)):
        chain.step(
            "split_overlap", f"part-{name}", {"start": start, "stop": stop}, data="prepare/data.safetensors"
        )
        parts[name] = set(
            load_prepared(chain.path(f"part-{name}/data.safetensors")).tensors["pretrain"].tolist()
        )
    assert not parts["a"] & parts["b"] and len(parts["a"] & parts["c"]) == len(parts["a"]) / 2
