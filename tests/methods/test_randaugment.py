"""RandAugment: each operation against timm's on bytes, the strengths' distribution, each image on its own, every size and type."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relearn.methods import randaugment as module
from relearn.methods.randaugment import randaugment

FILL = 0.5
TABLE = module._table(torch.tensor(FILL))
WARPS = ("Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY")
IN_TIMM = {
    **{
        one: f"{one}Increasing"
        for one in ("Posterize", "Solarize", "Color", "Contrast", "Brightness", "Sharpness")
    },
    **{one: f"{one}Rel" for one in ("TranslateX", "TranslateY")},
}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def smooth(height: int, width: int, seed: int = 0) -> torch.Tensor:
    """An image of bytes (3, H, W) without the darkest and the lightest values, smooth enough to be interpolated."""
    small = torch.rand(1, 3, 4, 5, generator=generator(seed))
    image = torch.nn.functional.interpolate(small, size=(height, width), mode="bicubic", align_corners=True)
    return (30 + 190 * image[0].clamp(0, 1)).round().to(torch.uint8)


def timm_image(name: str, image: torch.Tensor, magnitude: float, sign: int, monkeypatch) -> torch.Tensor:
    """What timm makes of the bytes with PIL."""
    import numpy as np
    from PIL import Image

    from relearn import torchvision_schema

    torchvision_schema.declare()
    from timm.data import auto_augment

    monkeypatch.setattr(auto_augment, "_randomly_negate", lambda value: sign * value)
    theirs = IN_TIMM.get(name, name)
    level = auto_augment.LEVEL_TO_ARG[theirs]
    arguments = level(magnitude, auto_augment._HPARAMS_DEFAULT) if level else ()
    pil = Image.fromarray(image.permute(1, 2, 0).numpy())
    options = dict(fillcolor=(255, 255, 255), resample=Image.Resampling.BILINEAR)
    made = auto_augment.NAME_TO_OP[theirs](pil, *arguments, **options)
    return torch.from_numpy(np.array(made)).permute(2, 0, 1).double()


def ours(name: str, image: torch.Tensor, magnitude: float, sign: float, table=TABLE) -> torch.Tensor:
    batch = image.double()[None] / 255
    strength, signs = (torch.tensor([one], dtype=torch.float64) for one in (magnitude / 10, float(sign)))
    return table[name](batch, strength, signs)[0] * 255


def test_the_operations_are_timms():
    from relearn import torchvision_schema

    torchvision_schema.declare()
    from timm.data import auto_augment

    assert [IN_TIMM.get(name, name) for name in TABLE] == auto_augment._RAND_INCREASING_TRANSFORMS


@pytest.mark.parametrize("magnitude", [0.0, 3.0, 9.0, 9.7, 10.0])
@pytest.mark.parametrize("name", [name for name in TABLE if name not in WARPS])
def test_colour_operations_are_timms_to_a_byte(name, magnitude, monkeypatch):
    """Blends round down in PIL, and its greys are bytes: within 2 of 255; all others to the bit."""
    image = smooth(24, 31)
    changed = 0.0
    if (name, magnitude) == ("Posterize", 10.0):
        truth = timm_image(name, image, 9.0, 1, monkeypatch)  # a bit is left, where timm would leave none
        assert torch.equal(ours(name, image, 10.0, 1).round(), truth)
        return
    for sign in (1, -1):
        truth = timm_image(name, image, magnitude, sign, monkeypatch)
        found = ours(name, image, magnitude, sign)
        blends = name in ("Color", "Contrast", "Brightness", "Sharpness", "AutoContrast")
        assert float((found - truth).abs().max()) <= (2.0 if blends else 1e-9)
        changed = max(changed, float((truth - image).abs().max()))
    if magnitude == 9:
        assert changed > 4  # the comparison could fail


@pytest.mark.parametrize("size", [(24, 24), (18, 31)])
@pytest.mark.parametrize("magnitude", [1.0, 9.0])
@pytest.mark.parametrize("name", WARPS)
def test_warps_are_timms_inside_and_the_fill_outside(name, magnitude, size, monkeypatch):
    """Same point for point, border pixels excepted, where PIL repeats the last pixel and we blend with the fill."""
    image = smooth(*size)
    table = module._table(torch.tensor(1.0))
    images = []
    for sign in (1, -1):
        truth = timm_image(name, image, magnitude, sign, monkeypatch)
        found = ours(name, image, magnitude, sign, table)
        # A pixel next to the fill (white, which the image has nowhere) on either side is a border pixel.
        white = ((truth == 255).all(0) | (found > 254.99).all(0)).double()[None, None]
        near = torch.nn.functional.max_pool2d(white, 3, 1, 1)[0, 0] > 0
        near[[0, -1]] = near[:, [0, -1]] = True
        assert float((~near).double().mean()) > 0.25
        assert float((found - truth).abs()[:, ~near].max()) <= 1.5
        far = 1 - torch.nn.functional.max_pool2d(1 - white, 3, 1, 1)[0, 0] > 0
        assert torch.allclose(found[:, far], torch.tensor(255.0).double())
        images.append(truth)
        assert float((truth - image)[:, ~near].abs().max()) > 3
    assert float((images[0] - images[1]).abs().max()) > 20  # the two signs are told apart


def test_a_strength_of_zero_changes_nothing_and_images_of_one_batch_have_their_own():
    images = torch.rand(6, 3, 9, 9, dtype=torch.float64, generator=generator(1))
    strength, sign = (
        torch.linspace(0, 1, 6).double(),
        torch.tensor([1.0, -1.0] * 3).double(),
    )
    for name, operation in TABLE.items():
        together = operation(images, strength, sign)
        alone = [operation(images[i : i + 1], strength[i : i + 1], sign[i : i + 1]) for i in range(6)]
        torch.testing.assert_close(together, torch.cat(alone), rtol=1e-12, atol=1e-12, msg=name)
        if name not in ("AutoContrast", "Equalize", "Invert", "Posterize"):
            torch.testing.assert_close(together[0], images[0], rtol=0, atol=1e-12, msg=name)
            assert not torch.allclose(together[5], images[5], atol=1e-3), name


def counted(monkeypatch, **given):
    """Operations that count themselves: image i's value is the product of what was done to it."""
    done = []

    def operation(number):
        def apply(images, strength, sign):
            done.append((number, strength.clone(), sign.clone()))
            return images

        return apply

    monkeypatch.setattr(
        module, "_table", lambda fill: {str(number): operation(number) for number in range(15)}
    )
    randaugment(**given)(torch.zeros(6000, 1, 1, 1, dtype=torch.float64), generator(2))
    kinds = torch.cat([torch.full((len(strength),), number) for number, strength, _ in done])
    return kinds, torch.cat([one[1] for one in done]), torch.cat([one[2] for one in done])


@pytest.mark.parametrize("operations", [1, 2, 3])
def test_operations_are_drawn_alike_and_half_of_them_applied(monkeypatch, operations):
    kinds, _, signs = counted(monkeypatch, operations=operations)
    drawn = 6000 * operations
    assert abs(len(kinds) - drawn / 2) < 5 * math.sqrt(drawn / 4)
    counts = torch.bincount(kinds, minlength=15).double()
    assert len(counts) == 15
    assert ((counts - drawn / 30).abs() < 5 * math.sqrt(drawn / 30)).all()
    assert set(signs.tolist()) == {1.0, -1.0}
    assert abs(float(signs.mean())) < 5 / math.sqrt(len(signs))


@pytest.mark.parametrize("magnitude,spread", [(9.0, 0.5), (5.0, 1.5), (10.0, 1.0), (0.0, 1.0)])
def test_strengths_are_normal_and_cut_at_0_and_10(monkeypatch, magnitude, spread):
    """Mean and variance of a normal distribution clamped to [0, 10], by a sum over its density."""
    _, strengths, _ = counted(monkeypatch, magnitude=magnitude, spread=spread)
    points = torch.linspace(-8, 8, 40001, dtype=torch.float64)
    density = (-points.square() / 2).exp()
    density /= density.sum()
    clamped = ((magnitude + spread * points) / 10).clamp(0, 1)
    mean = float((density * clamped).sum())
    variance = float((density * (clamped - mean) ** 2).sum())
    assert float(strengths.min()) >= 0 and float(strengths.max()) <= 1
    assert abs(float(strengths.mean()) - mean) < 5 * math.sqrt(variance / len(strengths))
    assert float(strengths.var()) == pytest.approx(variance, rel=0.12)


def test_without_spread_every_strength_is_the_magnitude(monkeypatch):
    _, strengths, _ = counted(monkeypatch, magnitude=7.0, spread=0.0)
    assert torch.equal(strengths, torch.full_like(strengths, 0.7))


def test_an_image_depends_on_its_place_in_the_draw_alone():
    """Neither on the batch's size, nor on its other images, nor on the global state, nor on the type beyond rounding."""
    images = torch.rand(40, 3, 10, 10, dtype=torch.float64, generator=generator(1))
    torch.manual_seed(0)
    whole = randaugment()(images, generator(3))
    torch.manual_seed(1)
    others = images.clone()
    others[5:] = 0.25
    for batch in (images[:5], others):
        torch.testing.assert_close(randaugment()(batch, generator(3))[:5], whole[:5], rtol=0, atol=1e-12)
    different = [not torch.allclose(a, b) for a, b in zip(whole, images)]
    assert 20 < sum(different) < 40  # 3/4, less what leaves an image as it is
    assert not torch.allclose(randaugment()(images, generator(4)), whole)
    first, second = generator(5), generator(5)
    randaugment()(images, first)
    randaugment()(torch.zeros(40, 1, 8, 8), second)
    assert torch.equal(first.get_state(), second.get_state())


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    channels=st.sampled_from([1, 3]),
    dtype=st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]),
)
def test_images_of_any_size_and_type_stay_images(seed, height, width, channels, dtype):
    images = torch.rand(9, channels, height, width, generator=generator(seed)).to(dtype)
    kept = images.clone()
    made = randaugment(operations=3)(images, generator(seed))
    assert made.shape == images.shape and made.dtype == dtype
    assert bool(((made >= -1e-6) & (made <= 1 + 1e-6)).all())  # NaN fails too
    assert torch.equal(images, kept)  # the batch itself is not written to


def test_operations_on_one_channel_are_those_on_a_grey_image_of_three():
    """Color leaves it as it is: a grey image has no saturation."""
    grey = torch.rand(4, 1, 11, 11, dtype=torch.float64, generator=generator(6))
    strength, sign = torch.full((4,), 0.9).double(), torch.tensor([1.0, -1.0, 1.0, -1.0]).double()
    for name, operation in TABLE.items():
        three = operation(grey.expand(-1, 3, -1, -1), strength, sign)
        # torchvision's weights of red, green and blue add up to 0.9999.
        atol = 1e-3 if name in ("Color", "Contrast") else 1e-12
        torch.testing.assert_close(operation(grey, strength, sign), three[:, :1], rtol=0, atol=atol, msg=name)
        torch.testing.assert_close(three[:, :1], three[:, 1:2], rtol=0, atol=1e-12, msg=name)


def test_the_fill_is_one_a_channel():
    images = torch.zeros(2, 3, 8, 8, dtype=torch.float64)
    table = module._table(torch.tensor([0.1, 0.2, 0.3]))
    moved = table["TranslateX"](images, torch.ones(2).double(), torch.tensor([1.0, -1.0]).double())
    assert torch.equal(moved[0, :, 4, -1], torch.tensor([0.1, 0.2, 0.3]).double())
    assert torch.equal(moved[1, :, 4, 0], torch.tensor([0.1, 0.2, 0.3]).double())
    assert bool((moved[0, :, :, :4] == 0).all()) and bool((moved[1, :, :, 4:] == 0).all())


@pytest.mark.parametrize(
    "make,message",
    [
        (lambda: randaugment(11.0), "randaugment magnitude: found 11.0, allowed is 0 to 10"),
        (lambda: randaugment(float("nan")), "randaugment magnitude: found nan"),
        (lambda: randaugment(9.0, -1.0), "randaugment spread: found -1.0"),
        (lambda: randaugment(9.0, float("inf")), "randaugment spread: found inf"),
        (lambda: randaugment(9.0, 0.5, 0), "randaugment operations: found 0"),
        (lambda: randaugment()(torch.zeros(2, 2, 4, 4), generator()), "found torch.float32 of 2 channels"),
        (
            lambda: randaugment()(torch.zeros(2, 3, 4, 4, dtype=torch.uint8), generator()),
            "randaugment images: found torch.uint8 of 3 channels, allowed are floats of 1 or 3 channels",
        ),
    ],
)
def test_impossible_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
