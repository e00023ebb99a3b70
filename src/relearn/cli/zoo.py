"""zoo: the page docs/model-zoo.md, every network that this package adds to timm's registry, with its counts.

    python -m relearn.cli.zoo > docs/model-zoo.md

No number on the page is typed by hand: parameters and multiply-adds come from :mod:`relearn.measures.model_counts`, printed numbers
from its table of the papers' values and from that of :mod:`relearn.measures.vision_counts`. A network that timm has under another
name is counted next to its counterpart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

TIMMS = {f"residual_deit_{size}": f"deit_{size}_patch16_224" for size in ("tiny", "small", "base")}
"""Network → timm's own of the same size."""
INTRODUCTION = """\
# Model zoo

Importing `relearn.models.timm_names` adds these networks to timm's registry, so any code that trains, measures or exports a timm network
can create them by name. All arguments of their classes can be passed; there are no weights to download.

```python
import relearn.models.timm_names
import timm
import torch

small = dict(img_size=32, patch_size=2, num_classes=10, depths=(1, 1, 2, 1))
net = timm.create_model("lipsformer_cswin_tiny", **small)
assert net(torch.rand(2, 3, 32, 32)).shape == (2, 10)
```

For pixels in [0, 1], with the normalisation inside the network:

```python
import torch
from relearn.models.vision import create

net = create("residual_deit_tiny", classes=10, size=32, patch_size=8, depth=2, mean=[0.5] * 3, std=[0.2] * 3)
images = torch.rand(2, 3, 32, 32)
assert net(images).shape == (2, 10) and net.features(images).shape == (2, 192)
```

They support the same features as timm's own networks:

```python
import relearn.models.timm_names
import timm
import torch

small = dict(
    img_size=32, patch_size=2, num_classes=10, embed_dim=12, depths=(1, 1), num_heads=(1, 2), window_size=4
)
net = timm.create_model("lipsformer_swin_tiny", **small).eval()
last, maps = net.forward_intermediates(torch.rand(2, 3, 32, 32))  # channels first
assert [tuple(one.shape) for one in maps] == [(2, 12, 16, 16), (2, 24, 8, 8)]
stages = timm.create_model("lipsformer_swin_tiny", features_only=True, **small)
assert stages.output_fmt == "NHWC"  # as timm's Swin: channels last
net.set_grad_checkpointing()  # less memory in training
net.set_input_size(img_size=64)  # the same weights on larger images
assert net(torch.rand(2, 3, 64, 64)).shape == (2, 10)

deit = timm.create_model(
    "residual_deit_tiny", depth=2, patch_size=8, img_size=32, dynamic_img_size=True, global_pool="avg"
)
assert deit(torch.rand(1, 3, 48, 32)).shape == (1, 1000)
```

- `group_matcher` supports timm's layer-wise learning rates; `reset_classifier(classes, global_pool)` replaces the head.
- `torch.export.export(net, (images,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))` and `torch.compile(net, fullgraph=True)` trace each
  network as one graph. The networks with windowed long-short attention (`cvt_ls_*`, `vil_*`) export with a fixed batch only.
- `torch.onnx.export(net, (images,), dynamo=True)` needs `pip install onnxscript`.
- `net.lipschitz_bound()` bounds LipsFormers and LRFormers: [lipschitz.md](lipschitz.md).
- With a CPU build of torch, pip's torchvision does not load, and `import timm` alone fails with `operator torchvision::nms does not
  exist`. Import `relearn.models.timm_names` or `relearn.torchvision_ready` first; the latter also helps `from transformers import ...`.

Numbers below: 1,000 classes, images of 224 x 224; a multiply-add, which papers call FLOPs, is one product with its sum. This page is what
`python -m relearn.cli.zoo` prints.
"""


def page() -> str:
    """The whole page."""
    from relearn.models.timm_names import NAMES

    parts = [INTRODUCTION]
    for place in dict.fromkeys(place for place, _ in NAMES.values()):
        names = [name for name, (where, _) in NAMES.items() if where == place]
        module, _, network = place.partition(":")
        parts.append(f"## `{module}`, {network}\n\n{_table(_rows(names))}")
    return "\n".join(parts)


def _rows(names: Iterable[str]) -> list[tuple[str, ...]]:
    """A header and one row per network; empty columns are left out."""
    printed = _printed()
    head = (
        "name",
        "printed as",
        "parameters",
        "printed, M",
        "in timm",
        "multiply-adds, G",
        "printed, G",
        "timm's, G",
        "note",
    )
    rows = []
    for name in names:
        count = _counts(name)
        title, millions, giga, note = printed.get(name, ("", "", "", ""))
        other = _counts(TIMMS[name]) if name in TIMMS else None
        rows.append(
            (
                f"`{name}`",
                title,
                f"{count['parameters']:,}",
                millions,
                f"{other['parameters']:,} (`{TIMMS[name]}`)" if other else "",
                f"{count['multiply_adds'] / 1e9:.2f}",
                giga,
                f"{other['multiply_adds'] / 1e9:.2f}" if other else "",
                note,
            )
        )
    kept = [place for place in range(len(head)) if any(row[place] for row in rows)]
    return [tuple(row[place] for place in kept) for row in (head, *rows)]


def _printed() -> dict[str, tuple[str, str, str, str]]:
    """Network → its name in the paper, printed millions of parameters and giga multiply-adds, and a note."""
    from relearn.measures.model_counts import NETWORKS, PUBLISHED
    from relearn.measures.vision_counts import PRINTED

    found = {
        name: (title, published.millions, published.giga or "", published.reason)
        for title, name in NETWORKS.items()
        if (published := PUBLISHED.get(title))
    }
    for title, row in PRINTED.items():
        if row.size == 224:
            found.setdefault(row.network, (title.partition(" [")[0].partition(" @")[0], *row[2:5]))
    return found


def _counts(name: str) -> dict[str, Any]:
    from functools import partial
    from importlib import import_module

    import relearn.models.timm_names  # noqa: F401  (registers the names when timm is imported)
    from relearn.measures.model_counts import model_counts

    (row,) = model_counts({name: partial(import_module("timm").create_model, name, num_classes=1000)})
    return row


def _table(rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


if __name__ == "__main__":
    print(page(), end="")
