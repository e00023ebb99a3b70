"""Deep k-NN on FAISS against the exact search at N = 10⁵ or 10⁶ and d = 512: recall, verdicts, time and memory; on one core.

The points are synthetic: 10 classes of 20 clusters in 24 dimensions, mapped to 512 and rectified, as features after a ReLU are; a share
of NOISE has a random label, which the filter should drop. Each index answers for the first ROWS points among all N (a point is its
own neighbour here). Seconds of the search are for these rows, those of ``build`` for all N points. The exact search is the
package's own, whose product runs through the same points.

    python benchmarks/deep_knn_scale.py              # N = 10⁵; two to three CPU minutes, most of them for the codes
    python benchmarks/deep_knn_scale.py --million    # N = 10⁶; about seven CPU minutes and at least 9 GB of memory
    python benchmarks/deep_knn_scale.py --forecast   # what 10⁶ to 10⁹ points would cost; needs neither torch nor FAISS
"""

from __future__ import annotations

import os
import sys
import tempfile
import time

N = 1_000_000 if sys.argv[1:2] == ["--million"] else 100_000
D, CLASSES, CLUSTERS, LATENT, NOISE = 512, 10, 20, 24, 0.05
ROWS = int(os.environ.get("DEEP_KNN_ROWS", 1_000))
K = 50
LISTS = 256 if N == 100_000 else 1024  # about the square root of N
INDEXES = [
    ("Flat", ""),
    (f"IVF{LISTS},Flat", "nprobe=1"),
    (f"IVF{LISTS},Flat", "nprobe=8"),
    (f"IVF{LISTS},Flat", "nprobe=32"),
    (f"IVF{LISTS},SQ8", "nprobe=32"),
    (f"IVF{LISTS},PQ64", "nprobe=32"),
]


def points():
    """Features and labels; neighbouring classes overlap, so that votes are not unanimous."""
    import torch

    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, CLASSES, (N,), generator=generator)
    part = torch.randint(0, CLUSTERS, (N,), generator=generator)
    centres = torch.randn(CLASSES, LATENT, generator=generator)[:, None]
    centres = centres + torch.randn(CLASSES, CLUSTERS, LATENT, generator=generator)
    latent = centres[y, part] + torch.randn(N, LATENT, generator=generator)
    X = (latent @ torch.randn(LATENT, D, generator=generator)).relu_()
    noisy = torch.rand(N, generator=generator) < NOISE
    return X, torch.where(noisy, torch.randint(0, CLASSES, (N,), generator=generator), y)


def measure() -> None:
    """Compare every index with the exact search and write the table."""
    import faiss
    import torch
    from timing import report

    from relearn.methods.deep_knn import agrees
    from relearn.methods.deep_knn_faiss import FaissSearch, members
    from relearn.methods.neighbours import NeighbourSearch

    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    X, y = points()

    def answer(build):
        start = time.process_time()
        search = build()
        built = time.process_time()
        keep = agrees(search, y, y[:ROWS], [K], "keep")[0]
        return search, keep, built - start, time.process_time() - built

    exact, right, _, seconds = answer(lambda: NeighbourSearch(X, queries=X[:ROWS]))
    theirs = members(exact, K).sort(dim=1).values
    rows = [
        {"index": "exact search", "recall": 1.0, "verdicts_agree": 1.0, "search_s": seconds, "index_mib": 0.0}
    ]
    for index, parameters in INDEXES:
        search, keep, built, seconds = answer(
            lambda index=index, parameters=parameters: FaissSearch(
                X, queries=X[:ROWS], index=index, parameters=parameters
            )
        )
        mine = members(search, K).sort(dim=1).values
        place = torch.searchsorted(mine, theirs).clamp(max=K - 1)
        rows.append(
            {
                "index": index,
                "parameters": parameters,
                "recall": (mine.gather(1, place) == theirs).double().mean().item(),
                "verdicts_agree": (keep == right).double().mean().item(),
                "build_s": built,
                "search_s": seconds,
                "index_mib": bytes_of(search.index) / 2**20,
            }
        )
        del search
    kept = right.double().mean().item()
    name = "deep_knn_scale" if N == 100_000 else "deep_knn_scale_million"
    report(name, rows, points=N, dimensions=D, classes=CLASSES, rows_asked=ROWS, k=K, kept_frac=kept)


def bytes_of(index) -> int:
    """Size of an index as FAISS writes it, without a copy in memory."""
    import faiss

    with tempfile.NamedTemporaryFile() as file:
        faiss.write_index(index, file.name)
        return os.path.getsize(file.name)


def forecast() -> None:
    """Print the cost of the exact search and the size of an IVF-PQ index at 10⁶ to 10⁹ points."""
    from relearn.forecast.machine import device
    from relearn.forecast.neighbours import exact, inverted_lists

    machine = device("h100")
    print(f"d = {D}, k = {K}, {machine.name}, 80 GB; {machine.source}")
    print(
        "points  exact: PFLOP      moved PB  stored GB  GPUs  hours each  GPU hours  | 64-byte codes: GB  visited by a query"
    )
    for power in (6, 7, 8, 9):
        found = exact(10.0**power, D, K, machine)
        lists = 2 ** round(power * 3.3219 / 2 + 2)  # about 4 sqrt(N), a common rule
        index = inverted_lists(10.0**power, D, code=64, lists=lists, probes=max(1, lists // 1000))
        print(
            f"1e{power}  {found.operations / 1e15:16,.3g}  {found.moved / 1e15:12,.3g}  {found.stored / 1e9:9,.3g}"
            f"  {found.gpus:4}  {found.hours:10,.3g}  {found.gpu_hours:9,.3g}  | {index.stored / 1e9:17,.3g}  {index.visited:18,.3g}"
        )
    more = exact(1e9, D, K, machine, gpus=256)
    print(f"1e9 points on 256 GPUs: {more.hours:.3g} hours each, {more.exchanged / 1e15:.3g} PB between them")


if __name__ == "__main__":
    forecast() if sys.argv[1:2] == ["--forecast"] else measure()
