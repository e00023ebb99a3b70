"""Deep k-NN at N = 50,000, d = 512, float32, on one core: time, memory and exactness.

Time is compared, in pairs, with a plain exact search, the blocked product ‖b‖² - 2a·b into one buffer and torch's top-k, and
with FAISS's flat index at several k, where FAISS is installed (``--faiss``: only these rows). The pairs search
the first ROWS rows among all N points, because the full search takes most of a minute; the full search runs once, in a
separate process, whose peak memory is read from the system.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from timing import compare, report

from relearn.methods.deep_knn import DeepKNN, agrees
from relearn.methods.neighbours import BLOCK_BYTES, NeighbourSearch, nearest

N, D, CLASSES = 50_000, 512, 10
ROWS = int(os.environ.get("DEEP_KNN_ROWS", 2_000))
CHECKED = 300
KS = [2, 5, 10, 20, 50, 75, 100, 200, 400, 1_000, 2_000, 5_000]


def points() -> tuple[torch.Tensor, torch.Tensor]:
    """Features after a ReLU of overlapping classes, so that votes are not unanimous."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, CLASSES, (N,), generator=generator)
    means = 0.15 * torch.randn(CLASSES, D, generator=generator)
    return torch.randn(N, D, generator=generator).add_(means[y]).relu_(), y


def bare(X: torch.Tensor, k: int) -> None:
    block = BLOCK_BYTES // (N * 4 + (k + 16) * 12 + k * 24)  # 256 MiB
    norms = X.square().sum(1)
    buffer = torch.empty(min(block, ROWS), N)
    for start in range(0, ROWS, block):
        stop = min(start + block, ROWS)
        distance = torch.addmm(norms, X[start:stop], X.T, alpha=-2, out=buffer[: stop - start])
        distance.topk(k, dim=1, largest=False)


def ours(X: torch.Tensor, y: torch.Tensor, ks: list[int]) -> None:
    agrees(NeighbourSearch(X, queries=X[:ROWS]), y, y[:ROWS], ks, "keep")


def paired() -> list[dict[str, object]]:
    X, y = points()
    rows = []
    for k in (50, KS[-1]):
        found = compare(lambda k=k: ours(X, y, [k]), lambda k=k: bare(X, k))
        rows.append({"measured": f"k = {k:,} against product + top-k", "rows": ROWS, **found, "wanted": 1.15})
    found = compare(lambda: ours(X, y, KS), lambda: ours(X, y, KS[-1:]))
    rows.append({"measured": f"12 k against k = {KS[-1]:,} alone", "rows": ROWS, **found, "wanted": 1.3})
    return rows


def against_faiss() -> list[dict[str, object]]:
    """Our search and vote, and FAISS's search alone, of the same rows; the indexes are built before."""
    named = {k: f"k = {k:,} against FAISS's flat index" for k in (50, 500, 2_000, 5_000)}
    try:
        import faiss
    except ImportError:
        return [{"measured": name, "skipped": "FAISS is not installed"} for name in named.values()]
    faiss.omp_set_num_threads(1)
    X, y = points()
    search, index, asked = NeighbourSearch(X, queries=X[:ROWS]), faiss.IndexFlatL2(D), X[:ROWS].numpy()
    index.add(X.numpy())
    rows: list[dict[str, object]] = []
    for k, name in named.items():
        found = compare(
            lambda k=k: agrees(search, y, y[:ROWS], [k], "keep"), lambda k=k: index.search(asked, k)
        )
        rows.append({"measured": name, "rows": ROWS, **found, "wanted": 1.0})
        report("deep_knn", rows[-1:], part_by=["measured"])
    return rows


def whole(out: str) -> None:
    """Run the full search in a fresh process; report seconds, peak memory above the initial one, and the answer."""
    import resource

    torch.set_num_threads(1)
    X, y = points()
    DeepKNN(5).fit_predict(X[:100], y[:100])  # exclude torch's one-time allocations from the measurement
    ks = json.loads(os.environ["DEEP_KNN_KS"])
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    before = pages * os.sysconf("SC_PAGE_SIZE")
    cpu = time.process_time()
    keep = DeepKNN().sweep(X, y, ks)
    cpu = time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    np.save(out, keep)
    print(json.dumps({"ours_s": cpu, "extra_mib": (peak - before) / 2**20}))


def full(ks: list[int], out: Path) -> dict[str, float]:
    environment = os.environ | {"DEEP_KNN_KS": json.dumps(ks)}
    command = [sys.executable, __file__, "--whole", str(out)]
    return json.loads(
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    )


def exactness(keep: np.ndarray) -> dict[str, object]:
    """Compare neighbour sets and answers of the first CHECKED rows with scikit-learn's brute force."""
    from sklearn.neighbors import NearestNeighbors

    X, y = points()
    most = KS[-1]
    order = (
        NearestNeighbors(algorithm="brute")
        .fit(X.numpy())
        .kneighbors(X[:CHECKED].numpy(), most + 1, return_distance=False)
    )
    members = nearest(X, most + 1, queries=X[:CHECKED])[0].numpy()
    wrong_sets = sum(set(a) != set(b) for a, b in zip(order.tolist(), members.tolist()))
    others = np.array([row[row != i][:most] for i, row in enumerate(order)])  # without the point itself
    wrong_answers = 0
    for k, answer in zip(KS, keep):
        votes = (y.numpy()[others[:, :k], None] == np.arange(CLASSES)).sum(1)
        right = votes[np.arange(CHECKED), y[:CHECKED]] == votes.max(1)
        wrong_answers += int((right != (answer[:CHECKED] == 1)).sum())
    return {
        "measured": "against scikit-learn's brute force",
        "rows": CHECKED,
        "sets_that_differ": wrong_sets,
        "answers_that_differ": wrong_answers,
        "wanted": 0,
    }


def main() -> None:
    torch.set_num_threads(1)
    rows = against_faiss()
    if sys.argv[1:2] == ["--faiss"]:
        return
    rows = paired() + rows
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "keep.npy"
        for ks in ([50], KS):
            found = full(ks, out)
            rows.append(
                {"measured": f"full, {len(ks)} k up to {ks[-1]:,}", "rows": N, **found, "wanted_mib": 1024}
            )
        keep = np.load(out)
    rows.append({**exactness(keep), "kept_frac": float((keep == 1).mean())})
    report("deep_knn", rows, points=N, dimensions=D, classes=CLASSES)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--whole"]:
        whole(sys.argv[2])
    else:
        main()
