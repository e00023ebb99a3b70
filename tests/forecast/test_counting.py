"""Operations counted without numbers equal those of small networks worked out by hand.

The cost of Deep k-NN at 10⁹ points: the formulas by hand, how they grow, and what is refused.
"""

from pathlib import Path

import pytest

from relearn.forecast import calibrate, counts
from relearn.forecast.amount import ADAM, Amount, amount_of
from relearn.forecast.machine import Machine
from relearn.forecast.neighbours import exact, inverted_lists
from relearn.studies.work import FORWARD, TRAIN, Counts, Net, Pass, Work, epochs, transformer


def test_a_network_of_the_package_is_counted_as_by_hand() -> None:
    from relearn.forecast.counting import count

    sizes = {
        "layers": 1,
        "dim": 8,
        "heads": 2,
        "ffn": 16,
        "norm": "post_ln",
        "init_scale": None,
        "glorot": "usual",
    }
    text = {"attention": "dp", "dropout": 0.0, "vocabulary": 11, "max_length": 7}
    found = count(Net("relearn.models.character_lm:create", {**sizes, **text}, (7,)))
    maps = 2 * 7 * (4 * 8 * 8 + 2 * 8 * 16)  # four maps of the attention, two of the feed-forward
    attention = 4 * 7 * 7 * 8
    assert found.products == maps + attention + 2 * 7 * 8 * 11
    assert found.convolutions == 0
    assert found.weights == 2 * 11 * 8 + 11 + 4 * 8 * 8 + 2 * 8 * 16 + 16 + 8 + 4 * 8


def test_a_network_that_cannot_be_built_is_one_line() -> None:
    from relearn.forecast.counting import count

    with pytest.raises(ValueError, match=r"relearn\.models:create.*name") as caught:
        count(Net("relearn.models:create", {"name": "NoNet"}, (3, 8, 8)))
    assert "\n" not in str(caught.value)


def test_passes_add_up() -> None:
    net = Counts(convolutions=5.0, products=7.0, moved=11.0, calls=13.0, weights=17.0)
    found = amount_of(Work([Pass(net, 3, 2.0, TRAIN), Pass(net, 4, 1.0, FORWARD)]))
    assert found == Amount(
        5.0 * (3 * 2 * 3 + 4), 7.0 * 22, 11.0 * 22 + 17 * (3 * ADAM + 4 * 4), 13.0 * (3 * 3.5 + 4)
    )
    unknown = Net("nowhere:create", {}, (1,))
    assert amount_of(Work([Pass(unknown, 1)])) is None


def test_epochs_round_batches_up_and_never_exceed_the_samples() -> None:
    net = Counts()
    assert (epochs(net, 10, 4, 3).steps, epochs(net, 10, 4, 3).samples) == (9, 4)
    assert (epochs(net, 10, 64, 3).steps, epochs(net, 10, 64, 3).samples) == (3, 10)


def test_a_transformer_in_closed_form_grows_with_the_square_of_the_length() -> None:
    short, long = (transformer(layers=2, dim=4, ffn=8, length=n) for n in (10, 20))
    assert short.products == 2 * 10 * 2 * (4 * 16 + 2 * 4 * 8) + 4 * 2 * 100 * 4
    assert long.products - 2 * short.products == 4 * 2 * (400 - 200) * 4


def test_counts_are_kept_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net("somewhere:create", {"a": 1}, (3, 8, 8))
    monkeypatch.setattr(counts, "own_file", lambda: tmp_path / "counts.json.xz")
    counts.table.cache_clear()
    assert counts.counts_of(net) is None
    counts.keep({counts.key(net): Counts(1.0, 2.0, 3.0, 4.0, 5.0)}, counts.own_file())
    assert counts.counts_of(net) == Counts(1.0, 2.0, 3.0, 4.0, 5.0)
    whole = counts.own_file().read_bytes()
    for torn in (b"", b"[", whole[: len(whole) // 2]):
        counts.own_file().write_bytes(torn)
        counts.table.cache_clear()
        assert counts.counts_of(net) is None and counts.table()  # the package's table is whole
    counts.keep({counts.key(net): Counts(1.0, 2.0, 3.0, 4.0, 5.0)}, counts.own_file())
    assert counts.counts_of(net) == Counts(1.0, 2.0, 3.0, 4.0, 5.0)
    monkeypatch.setattr(counts, "SHIPPED", tmp_path / "shipped.json.xz")
    counts.SHIPPED.write_bytes(torn)
    counts.table.cache_clear()
    with pytest.raises(ValueError, match=r"shipped.json.xz: found .*allowed: the table of the package"):
        counts.table()
    monkeypatch.undo()
    counts.table.cache_clear()


def test_a_calibration_measures_rates_that_a_machine_can_have() -> None:
    found = calibrate.calibrate(repeats=1, slice_s=0.005)
    assert isinstance(found, Machine)
    assert 1e8 < found.convolutions < 1e13
    assert 1e8 < found.products < 1e13
    assert 1e8 < found.bandwidth < 1e12
    assert 1e3 < found.calls < 1e7
    assert 0 < found.start_s < 30


GPU = Machine(name="a GPU", convolutions=1.0, products=20e12, bandwidth=2e12, calls=1.0, start_s=0.0, gpus=1)


def test_a_small_case_by_hand() -> None:
    """1,000 points of 8 numbers, blocks of 300: 4 blocks read the points, each distance is written and read."""
    found = exact(1000, 8, 5, GPU, block=300)
    assert found.operations == 2 * 1000 * 1000 * 8
    assert found.stored == 32_000
    assert found.moved == 8 * 1000 * 1000 + 4 * 32_000
    assert found.exchanged == 1000 * (32 + 5 * 12)
    assert found.gpus == 1
    assert found.hours == pytest.approx((16e6 / 20e12 + 8.128e6 / 2e12) / 3600)


def test_the_points_decide_how_many_gpus_there_are_at_least() -> None:
    """10⁹ points of 512 float32 are 2.048 TB: 32 devices of 80 GB with four fifths of each."""
    found = exact(1e9, 512, 50, GPU)
    assert found.stored == 2.048e12 and found.gpus == 32
    assert exact(1e9, 512, 50, GPU, gpus=256).hours == pytest.approx(found.hours / 8)
    assert exact(1e9, 512, 50, GPU, gpus=256).gpu_hours == pytest.approx(found.gpu_hours)
    with pytest.raises(ValueError, match=r"gpus: found 31, allowed: at least 32, which hold 2\.05 TB"):
        exact(1e9, 512, 50, GPU, gpus=31)


def test_ten_times_the_points_are_a_hundred_times_the_work() -> None:
    small, large = (exact(n, 512, 50, GPU) for n in (1e8, 1e9))
    assert large.operations == 100 * small.operations
    assert large.gpu_hours == pytest.approx(100 * small.gpu_hours, rel=1e-3)


def test_an_index_keeps_its_codes_and_reads_the_lists_that_it_probes() -> None:
    found = inverted_lists(1e6, 64, code=16, lists=1000, probes=10)
    assert found.stored == 1e6 * 24 + 1000 * 64 * 4 + 256 * 64 * 4
    assert found.visited == 1e4
    assert found.read == 1e6 * 1e4 * 16
    with pytest.raises(ValueError, match="probes: found 11, allowed: 1 to 10, the lists"):
        inverted_lists(100, 8, code=8, lists=10, probes=11)


@pytest.mark.parametrize("name", ["full", "long_short", "long_short_window_cache", "long_short_no_cache"])
def test_the_closed_form_of_a_character_model_with_a_cache_equals_its_counted_products(name: str) -> None:
    import torch

    from relearn.forecast.counting import Counter
    from relearn.models.long_short_lm import create
    from relearn.studies.long_short.steps.cost_cases import CURVES
    from relearn.studies.long_short.work import character_model

    sizes = {"layers": 2, "dim": 64, "heads": 2, "ffn": 96, "window": 32, "segment": 16, "rank": 2}
    kind, cached = CURVES[name]
    for length in (256, 1024):
        past = {"length": length, "window": sizes["window"], "": 0}[cached]
        with torch.device("meta"), torch.no_grad():
            net = create(attention=kind, vocabulary=11, **sizes).train()
            for part in net.modules():
                if hasattr(part, "fused"):
                    part.fused = False  # the same products without the hand-written backward pass
            cache = [torch.zeros(1, past, sizes["dim"])] * sizes["layers"] if past else None
            with Counter() as counter:
                net(torch.ones(1, length, dtype=torch.int64), cache=cache)
        found = character_model({**sizes, "vocabulary": 11}, name, length)
        assert found.products == pytest.approx(counter.products, rel=0.05)
