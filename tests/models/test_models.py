"""The register of networks (src/relearn/models/__init__.py): lazy, complete, helpful about a wrong name."""

import subprocess
import sys
from importlib import import_module

import pytest
from torch import nn

from relearn.models import MODELS, create, module_of
from relearn.models.classifier import Classifier
from relearn.testing import ModelContract

EIGHT = (
    "SENet18",
    "ResNet50",
    "ResNeXt29-2x64d",
    "DPN92",
    "MobileNetV2",
    "GoogLeNet",
    "ResNet18",
    "DenseNet121",
)


def test_the_eight_networks_of_the_experiment_are_there():
    assert set(EIGHT) <= set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_every_entry_is_a_classifier_in_this_room(name):
    module, cls = MODELS[name].split(":")
    assert module_of(name) == module
    assert module.startswith("relearn.models.")
    assert issubclass(getattr(import_module(module), cls), Classifier)


def run(code: str) -> list[str]:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()


def test_importing_the_room_imports_no_architecture_and_no_torch():
    loaded = run(
        "import sys, relearn.models; print(*[m for m in sys.modules if m.startswith(('relearn', 'torch'))])"
    )
    assert set(loaded) == {"relearn", "relearn.models"}


def test_creating_one_network_loads_its_file_and_no_vision_library():
    loaded = set(run("import sys, relearn.models as m; m.create('DPN92', width=0.02); print(*sys.modules)"))
    assert "relearn.models.dpn" in loaded
    assert not loaded & {
        "relearn.models.densenet",
        "relearn.models.googlenet",
        "timm",
        "torchvision",
        "pandas",
    }


@pytest.mark.parametrize("name", MODELS)
def test_every_entry_can_be_trained_and_saved_as_the_contract_says(name, request):
    if name.startswith("timm"):
        request.getfixturevalue("timm")
    less = {"depth": 0.02} if "1202" in name else {}

    class Contract(ModelContract):
        def make(self, **arguments):
            return create(name, **arguments | less)

    Contract().test_it_is_a_classifier_that_can_be_trained_and_saved()


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("resnet18", "ResNet18"),
        ("DenseNet", "DenseNet121"),
        ("ResNext29", "ResNeXt29-2x64d"),
        ("DPN", "DPN92"),
    ],
)
@pytest.mark.parametrize("function", [create, module_of])
def test_a_wrong_name_is_answered_with_the_nearest_one(function, wrong, nearest):
    with pytest.raises(ValueError, match=f"did you mean '{nearest}'") as caught:
        function(wrong)
    assert "\n" not in str(caught.value)
    assert all(name in str(caught.value) for name in MODELS)


def test_arguments_reach_the_network():
    net = create(
        "ResNet18", classes=7, in_channels=2, width=0.25, depth=0.5, dropout=0.3, mean=(0.1, 0.2), std=(1, 2)
    )
    assert net.head.out_features == 7
    assert net.feature_dim == 128
    assert net.mean.flatten().tolist() == pytest.approx([0.1, 0.2])
    assert net.std.flatten().tolist() == [1, 2]
    assert [m.p for m in net.modules() if isinstance(m, nn.Dropout)] == [0.3] * 4
