"""Deep k-NN on FAISS: the flat index gives the exact answers, an approximate one a recall between 0 and 1."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.methods.deep_knn import DeepKNN
from relearn.methods.deep_knn_faiss import FaissDeepKNN, FaissSearch, members, recall, shared
from relearn.methods.neighbours import NeighbourSearch

installed = pytest.mark.skipif(find_spec("faiss") is None, reason="the extra `faiss` is not installed")


def test_without_faiss_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"^FaissDeepKNN needs FAISS: pip install 'relearn\[faiss\]'$"):
        FaissDeepKNN(2).fit_predict(np.eye(4), [0, 0, 1, 1])


@st.composite
def sets(draw):
    """Points of which many coincide or are equally far (a lattice), or none (normal), far from the origin or not."""
    n = draw(st.integers(2, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = (n, draw(st.integers(1, 4)))
    X = rng.integers(0, 3, size=shape) if draw(st.booleans()) else rng.normal(size=shape)
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return (X + draw(st.sampled_from([0, 1000]))).astype(dtype), rng.integers(0, 3, size=n)


@installed
@settings(max_examples=60)
@given(st.data())
def test_the_flat_index_gives_the_exact_answers_with_their_ties(data):
    X, y = data.draw(sets())
    include_self = data.draw(st.booleans())
    most = len(y) if include_self else len(y) - 1
    ks = data.draw(st.lists(st.integers(1, most), min_size=1, max_size=3))
    block = data.draw(st.one_of(st.none(), st.integers(1, len(y))))
    for label_ties in ("keep", "smallest"):
        exact = DeepKNN(1, include_self, label_ties).sweep(X, y, ks)
        np.testing.assert_array_equal(FaissDeepKNN(1, include_self, label_ties, block).sweep(X, y, ks), exact)


@installed
@pytest.mark.parametrize("include_self", [False, True])
def test_many_duplicates_push_a_point_out_of_its_own_candidates(include_self):
    """100 equal points: FAISS names any k + 17 of them; the smallest indices are the neighbours."""
    X, y = np.ones((100, 2), np.float32), np.arange(100) % 2
    X[:3] = 0  # not all distances are equal
    exact = DeepKNN(5, include_self).fit_predict(X, y)
    np.testing.assert_array_equal(FaissDeepKNN(5, include_self).fit_predict(X, y), exact)
    found = members(FaissSearch(X, include_self=include_self), 5)[-1].sort().values
    expected = [3, 4, 5, 6, 99] if include_self else [3, 4, 5, 6, 7]
    assert found.tolist() == expected


def clusters(n=2000, d=16):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    return (2 * np.eye(10, d)[y] + rng.normal(size=(n, d))).astype(np.float32), y


@installed
def test_more_probes_find_more_and_all_probes_find_everything():
    X, y = clusters()
    found = [recall(X, 20, X[:200], index="IVF16,Flat", parameters=f"nprobe={n}") for n in (1, 4, 16)]
    assert 0.2 < found[0] < found[1] < found[2] == 1.0
    exact = DeepKNN(20).fit_predict(X, y)
    quick = FaissDeepKNN(20, index="IVF16,Flat", parameters="nprobe=4").fit_predict(X, y)
    assert 0.8 < (quick == exact).mean() < 1.0
    whole = FaissDeepKNN(20, index="IVF16,Flat", parameters="nprobe=16").fit_predict(X, y)
    np.testing.assert_array_equal(whole, exact)


@installed
def test_recall_is_the_share_of_the_true_neighbours():
    """Of points on a line, half of the neighbours are wrong when the search sees only the other half of the points."""
    line = torch.arange(40.0)[:, None]
    seen = torch.where(line % 2 == 0, line, 1e6 + line)  # the odd points are far away
    query = torch.tensor([[20.2]])
    exact, blind = NeighbourSearch(line, queries=query), NeighbourSearch(seen, queries=query)
    # exact: 20, 21, 19, 22, 18, 23; blind: 20, 22, 18, 24, 16, 26
    assert shared(blind, exact, 6) == pytest.approx(3 / 6)
    assert recall(line, 6, query, index="Flat") == 1.0


@installed
def test_queries_that_an_index_answers_too_briefly_are_searched_exactly():
    """One list of ten is probed: it holds fewer points than k, so every row goes the exact way."""
    X, y = clusters(n=400)
    exact = DeepKNN(150).fit_predict(X, y)
    quick = FaissDeepKNN(150, block=7, index="IVF10,Flat", parameters="nprobe=1").fit_predict(X, y)
    np.testing.assert_array_equal(quick, exact)


@installed
@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"index": "Hash99"}, "index is 'Hash99'.* FAISS refuses them: "),
        ({"index": "IVF4,Flat", "parameters": "probes=3"}, "parameters 'probes=3'.* FAISS refuses them: "),
        ({"index": "IVF4000,Flat"}, "for 400 points of 16 numbers; FAISS refuses them: "),
        ({"k": 400}, "k is 400; allowed: 1 to 399"),
        ({"label_ties": "largest"}, "label_ties is 'largest'"),
    ],
)
def test_wrong_arguments_are_refused(arguments, match):
    X, y = clusters(n=400)
    with pytest.raises(ValueError, match=match) as refusal:
        FaissDeepKNN(**arguments).fit_predict(X, y)
    assert "\n" not in str(refusal.value)


@installed
def test_it_is_a_detector_like_the_others():
    from sklearn.base import clone

    X, y = clusters(n=400)
    detector = FaissDeepKNN(10, index="IVF4,Flat", parameters="nprobe=2")
    kept = detector.fit_predict(X, y)
    np.testing.assert_array_equal(clone(detector).fit_predict(torch.from_numpy(X), torch.from_numpy(y)), kept)
    np.testing.assert_array_equal(detector.fit_predict(np.stack([X, X]), y), np.stack([kept, kept]))
    assert detector.set_params(index="Flat") is detector and detector.get_params()["index"] == "Flat"
