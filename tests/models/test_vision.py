"""Vision networks by name: the trunk's own numbers behind one interface, what decays, what is refused, what costs nothing."""

import pytest
import torch
from torch import nn

from relearn.models import timm_names
from relearn.models.vision import create, modules_of
from relearn.models.vision_classifier import VisionClassifier

MEAN, STD = [0.3, 0.5], [0.2, 0.4]
FOUR = dict(embed_dim=8, depths=[1, 1, 2, 1], num_heads=[2, 2, 2, 2], patch_size=1)
FORMS = {
    "lipsformer_cswin_tiny": FOUR,
    "lipsformer_swin_tiny": FOUR | dict(window=4),
    "cswin_tiny": FOUR,
    "swin_tiny_patch4_window7_224": FOUR | dict(window_size=2),
    "deit_tiny_patch16_224": dict(embed_dim=8, depth=2, num_heads=2, patch_size=2),
    "cait_xxs24_224": dict(embed_dim=8, depth=2, num_heads=2, patch_size=2),
    "resnet10t": {},
    "convnext_atto": {},
}


def build(name: str, **more) -> VisionClassifier:
    torch.manual_seed(0)
    described = dict(classes=3, in_channels=2, size=8 if FORMS[name] else 64, mean=MEAN, std=STD)
    return create(name, **described, **(FORMS[name] | more))


@pytest.mark.parametrize("name", FORMS)
def test_logits_are_the_trunks_of_the_normalised_image(name):
    net = build(name).double().eval()
    with torch.no_grad():
        for parameter in net.parameters():  # some start with branches that add nothing
            parameter += 0.1 * torch.randn_like(parameter)
    x = torch.rand(3, 2, net.description["size"], net.description["size"], dtype=torch.double)
    by_hand = torch.stack([(x[:, c] - MEAN[c]) / STD[c] for c in range(2)], 1)
    with torch.no_grad():
        assert torch.allclose(net(x), net.trunk(by_hand), rtol=0, atol=1e-6)
        assert torch.equal(net(x), net.head(net.features(x)))
        assert not torch.allclose(net(x), net.trunk(x), rtol=0, atol=1e-6)  # the control: not normalised
    assert net(x).shape == (3, 3) and net.features(x).dim() == 2
    assert net.head is net.trunk.get_classifier()
    names = [name for name, _ in net.named_parameters(remove_duplicate=False)]
    assert len(names) == len(set(map(id, net.parameters())))  # the head is in the state once


def test_the_description_builds_the_same_network():
    net = build("lipsformer_cswin_tiny", drop_path_rate=0.1)
    torch.manual_seed(0)
    again = create(**net.description)
    assert again.description == net.description and net.description["drop_path_rate"] == 0.1
    for (name, a), (other, b) in zip(net.state_dict().items(), again.state_dict().items(), strict=True):
        assert name == other and torch.equal(a, b)


def test_without_mean_and_std_the_image_is_the_trunks_input():
    net = create(
        "deit_tiny_patch16_224", classes=3, in_channels=2, size=8, **FORMS["deit_tiny_patch16_224"]
    ).eval()
    x = torch.rand(2, 2, 8, 8)
    with torch.no_grad():
        assert torch.equal(net(x), net.trunk(x))


def test_what_the_trunk_spares_from_decay_keeps_its_name_here():
    net = build("swin_tiny_patch4_window7_224")
    spared = net.no_weight_decay()
    tables = {name for name, _ in net.named_parameters() if name.endswith("relative_position_bias_table")}
    assert spared == tables and len(tables) == 5
    assert build("resnet10t").no_weight_decay() == set()


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        (
            "lipsformer_swin_tinny",
            {},
            r"network: 'lipsformer_swin_tinny' .*did you mean 'lipsformer_swin_tiny'",
        ),
        ("lipsformer_swin_tiny", dict(size=10), "img_size: 10"),
        ("lipsformer_swin_tiny", dict(widht=3), "network lipsformer_swin_tiny: .*widht"),
        ("deit_tiny_patch16_224", dict(mean=[0.1], in_channels=2), "mean: 1 values .*2"),
        ("deit_tiny_patch16_224", dict(std=[0.0], in_channels=1), r"std: \[0.0\] \(allowed: positive\)"),
        ("deit_tiny_distilled_patch16_224", {}, "several heads"),
    ],
)
def test_what_cannot_be_built_is_one_line(name, given, words):
    with pytest.raises(ValueError, match=words) as error:
        create(name, **(dict(classes=3) | given))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("images", "kind", "words"),
    [
        (torch.zeros(1, 2, 8, 8, dtype=torch.uint8), TypeError, "images: torch.uint8"),
        (torch.zeros(1, 1, 8, 8), ValueError, r"images: shape \(1, 1, 8, 8\) \(allowed: \(B, 2, H, W\)\)"),
        (torch.zeros(2, 8, 8), ValueError, "images: shape"),
    ],
)
def test_images_that_would_broadcast_or_are_bytes_are_refused(images, kind, words):
    with pytest.raises(kind, match=words):
        build("deit_tiny_patch16_224")(images)


def test_the_modules_of_a_name_are_those_of_its_class():
    assert modules_of("resnet10t") == modules_of("no such network") == []
    for name in ("lipsformer_cswin_tiny", "cswin_tiny"):
        assert modules_of(name) == [type(build(name).trunk).__module__]
    assert all(modules_of(name)[0].startswith("relearn.models.") for name in timm_names.NAMES)


def test_half_precision_works_where_the_trunk_does():
    net = build("lipsformer_cswin_tiny").to(torch.bfloat16)
    out = net(torch.rand(2, 2, 8, 8, dtype=torch.bfloat16))
    assert out.dtype == torch.bfloat16 and out.isfinite().all()
    assert isinstance(net.head, nn.Linear)
