"""A package with a method of each kind is installed by pip; params.yaml names them, real jobs run them."""

import ast
import inspect
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
import pytest
import torch
import yaml

from relearn.cli import pack
from relearn.cli.jobs import Job
from relearn.methods.crafting import Crafted
from relearn.params.messages import check
from relearn.params.types import Count, OneOf, Section, Unique0, also
from relearn.runs import plugins
from relearn.runs.code_version import code_version
from relearn.testing import (
    AttackContract,
    AttentionContract,
    DefenceContract,
    InitialisationContract,
    ModelContract,
)

from .test_recipes import House

PACKAGE = Path(__file__).resolve().parents[1] / "plugin_package"
sys.path.append(str(PACKAGE))
import relearn_example  # noqa: E402


class TestBrightnessFilter(DefenceContract):
    def make(self) -> Any:
        return relearn_example.BrightnessFilter(0.2)


class TestBlendedTarget(AttackContract):
    def craft(self, substitutes: Any, bases: Any, targets: Any, **options: Any) -> Any:
        return relearn_example.blended_target(substitutes, bases, targets, **options)


class TestHalved(InitialisationContract):
    def initialise(self, model: Any, loss: Any, batches: Any, *, seed: int) -> Any:
        return relearn_example.halved(model, loss, batches, seed=seed)


class TestMeanMixing(AttentionContract):
    def make(self, dim: int, heads: int, **arguments: Any) -> Any:
        return relearn_example.MeanMixing(dim, heads, **arguments)


class TestOneStage(ModelContract):
    def make(self, **arguments: Any) -> Any:
        return relearn_example.OneStage(**arguments)


class TestConvexPolytope(AttackContract):
    def craft(self, substitutes: Any, bases: Any, targets: Any, **options: Any) -> Any:
        from relearn.methods.convex_polytope import craft

        return craft(substitutes, bases, targets, **options)


class LeavesTheBall(TestBlendedTarget):
    """A control: an attack that breaks its promise fails the contract."""

    __test__ = False
    test = "test_poisons_stay_in_their_ball_and_in_the_pixels_range"

    def craft(self, substitutes: Any, bases: Any, targets: Any, **options: Any) -> Any:
        made = super().craft(substitutes, bases, targets, **options)
        made.poisons = (made.poisons + 0.3).clamp(0, 1)
        return made


class MovesItsBases(LeavesTheBall):
    def craft(self, *networks_and_images: Any, **options: Any) -> Any:
        made = super().craft(*networks_and_images, **options)
        return Crafted(made.poisons, (made.bases + 0.3).clamp(0, 1), made.final_loss)


class Freezes(TestHalved):
    __test__ = False
    test = "test_it_sets_parameters_and_leaves_no_other_trace"

    def initialise(self, model: Any, loss: Any, batches: Any, *, seed: int) -> Any:
        model.requires_grad_(False)
        return super().initialise(model, loss, batches, seed=seed)


class LeavesAHook(Freezes):
    def initialise(self, model: Any, loss: Any, batches: Any, *, seed: int) -> Any:
        model.head.register_forward_hook(lambda *_: None)
        return super().initialise(model, loss, batches, seed=seed)


class IgnoresItsSeed(Freezes):
    draws = True
    test = "test_the_seed_decides_what_it_draws"

    def initialise(self, *given: Any, seed: int) -> Any:
        return TestHalved().initialise(*given, seed=seed)


class HooksItsSubstitutes(LeavesTheBall):
    test = "test_substitutes_are_left_as_they_were"

    def craft(self, substitutes: Any, *images: Any, **options: Any) -> Any:
        next(substitutes[1].parameters()).register_hook(lambda gradient: None)
        return TestBlendedTarget().craft(substitutes, *images, **options)


class IgnoresItsTarget(LeavesTheBall):
    test = "test_each_target_has_poisons_of_its_own"

    def craft(self, substitutes: Any, bases: Any, targets: Any, **options: Any) -> Any:
        return TestBlendedTarget().craft(substitutes, bases, torch.zeros_like(targets), **options)


class MixesItsTargets(IgnoresItsTarget):
    def craft(self, substitutes: Any, bases: Any, targets: Any, **options: Any) -> Any:
        return TestBlendedTarget().craft(substitutes, bases, targets.flip(0) + targets, **options)


class RoundsItsPoisons(LeavesTheBall):
    def craft(self, *networks_and_images: Any, **options: Any) -> Any:
        made = TestBlendedTarget().craft(*networks_and_images, **options)
        return Crafted(made.poisons.half(), made.bases, made.final_loss)


class LacksKeywords(LeavesTheBall):
    """It has those of the tests of seeds and of resuming, and no others; the jobs pass `watch` and `progress`, too."""

    def craft(self, *networks_and_images: Any, **options: Any) -> Any:
        def own(*, eps, iterations, seed, precision="fp32", log=None, checkpoint=None, checkpoint_every=1):
            return TestBlendedTarget().craft(*networks_and_images, eps=eps, iterations=iterations, seed=seed)

        return own(**options)


class ChangesItsImages(LeavesTheBall):
    """In place, and consistently: its poisons are in the ball about the bases that it changed."""

    def craft(self, substitutes: Any, bases: Any, targets: Any, **options: Any) -> Any:
        bases.mul_(0.5)
        return TestBlendedTarget().craft(substitutes, bases, targets, **options)


class ChangesItsTargets(LeavesTheBall):
    def craft(self, substitutes: Any, bases: Any, targets: Any, **options: Any) -> Any:
        return TestBlendedTarget().craft(substitutes, bases, targets.mul_(0.5), **options)


class SavesInVain(LeavesTheBall):
    """It writes checkpoints, and begins anew; the poisons are the same."""

    test = "test_an_interrupted_run_resumes_to_the_same_bits"

    def craft(self, *networks_and_images: Any, **options: Any) -> Any:
        if kept := options["checkpoint"]:
            kept.load()
            options["checkpoint"] = SimpleNamespace(load=lambda: None, save=kept.save)
        return TestBlendedTarget().craft(*networks_and_images, **options)


class DrawsGlobally(LeavesTheBall):
    test = "test_the_seed_decides_and_the_global_state_does_not"

    def craft(self, *networks_and_images: Any, **options: Any) -> Any:
        np.random.rand()
        return TestBlendedTarget().craft(*networks_and_images, **options)


class StartsGlobally(Freezes):
    def initialise(self, *given: Any, seed: int) -> Any:
        random.random()
        return TestHalved().initialise(*given, seed=seed)


class FiltersGlobally(TestBrightnessFilter):
    __test__ = False
    test = "test_is_deterministic_and_leaves_no_trace"

    def make(self) -> Any:
        random.random()

        class Drawing(relearn_example.BrightnessFilter):
            def fit_predict(self, X: Any, y: Any) -> Any:
                random.random()
                return super().fit_predict(X, y)

        return Drawing(0.2)


class WithoutGradients(TestOneStage):
    __test__ = False
    test = "test_it_is_a_classifier_that_can_be_trained_and_saved"

    def make(self, **arguments: Any) -> Any:
        class Detached(relearn_example.OneStage):
            def features(self, x: Any) -> Any:
                return super().features(x).detach().requires_grad_()

        return Detached(**arguments)


class WithAnIdleLayer(WithoutGradients):
    def make(self, **arguments: Any) -> Any:
        net = super(WithoutGradients, self).make(**arguments)
        net.idle = torch.nn.Linear(1, 1)
        return net


class WithoutDepth(WithoutGradients):
    def make(self, *, depth: Any = None, **arguments: Any) -> Any:
        if depth is not None:
            raise TypeError("unexpected keyword argument 'depth'")
        return super(WithoutGradients, self).make(**arguments)


class NoClassifier(WithoutGradients):
    def make(self, **arguments: Any) -> Any:
        net = super(WithoutGradients, self).make(**arguments)
        given = torch.nn.Sequential(net.stem, *net.body)  # and all that the other tests use
        given.head, given.features, given.feature_dim = net.head, net.features, net.feature_dim
        return given


class StateOfItsOwn(WithoutGradients):
    def make(self, **arguments: Any) -> Any:
        net = super(WithoutGradients, self).make(**arguments)
        net.std = torch.rand(1, 3, 1, 1) + 1  # drawn
        net._non_persistent_buffers_set.add("std")
        return net


class FailsInTraining(TestMeanMixing):
    __test__ = False
    test = "test_it_can_be_trained_and_changes_neither_its_input_nor_itself"

    def make(self, *sizes: Any, **arguments: Any) -> Any:
        net = super().make(*sizes, **arguments)
        net.register_forward_hook(lambda net, given, y: y / 0 if net.training else y)
        return net


class LearnsNothing(FailsInTraining):
    def make(self, *sizes: Any, **arguments: Any) -> Any:
        net = super(FailsInTraining, self).make(*sizes, **arguments)
        net.register_forward_hook(lambda net, given, y: y.detach() + given[0] if net.training else y)
        return net


class MovesItsWeights(FailsInTraining):
    def make(self, *sizes: Any, **arguments: Any) -> Any:
        net = super(FailsInTraining, self).make(*sizes, **arguments)
        net.register_forward_pre_hook(lambda net, given: (given[0], net.out.weight.data.mul_(0.9))[:1])
        return net


WRONG_ATTACKS = (
    LeavesTheBall,
    MovesItsBases,
    RoundsItsPoisons,
    HooksItsSubstitutes,
    IgnoresItsTarget,
    MixesItsTargets,
    LacksKeywords,
    ChangesItsImages,
    ChangesItsTargets,
    SavesInVain,
    DrawsGlobally,
)
WRONG_STARTS = Freezes, LeavesAHook, IgnoresItsSeed, StartsGlobally
WRONG_NETWORKS = WithoutGradients, WithAnIdleLayer, WithoutDepth, NoClassifier, StateOfItsOwn
WRONG_LAYERS = FailsInTraining, LearnsNothing, MovesItsWeights


@pytest.mark.parametrize(
    "wrong", (*WRONG_ATTACKS, *WRONG_STARTS, *WRONG_NETWORKS, *WRONG_LAYERS, FiltersGlobally)
)
def test_a_method_that_breaks_a_promise_fails_its_contract(wrong: Any) -> None:
    with pytest.raises((AssertionError, ValueError, TypeError)):
        getattr(wrong(), wrong.test)()


def test_the_contract_of_attacks_passes_what_the_jobs_pass_and_the_page_lists_it() -> None:
    from relearn.studies.poisoning.steps import craft

    class Notes(TestBlendedTarget):
        def craft(self, *networks_and_images: Any, **options: Any) -> Any:
            seen.update(options)
            return super().craft(*networks_and_images, **options)

    seen: dict[str, Any] = {}
    Notes()._craft()
    calls = (node for node in ast.walk(ast.parse(inspect.getsource(craft))) if isinstance(node, ast.Call))
    (call,) = (one for one in calls if isinstance(one.func, ast.Name) and one.func.id == "attack")
    assert set(seen) == {keyword.arg for keyword in call.keywords if keyword.arg}
    page = (Path(__file__).parents[2] / "docs/extending.md").read_text(encoding="utf-8")
    assert all(f"`{keyword}`" in page for keyword in seen)


@pytest.mark.parametrize("name", ["deep_knn", "9lives", "a/b"])
def test_a_name_that_is_taken_or_no_name_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint(name, "elsewhere:Filter", "relearn.defences")
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry] if group == "relearn.defences" else [])
    with pytest.raises(ValueError, match=rf"group relearn\.defences: found the name '{name}'"):
        plugins.installed.__wrapped__()


def installed_from(
    monkeypatch: pytest.MonkeyPatch, value: str, group: str = "relearn.defences"
) -> dict[str, dict[str, str]]:
    entry = EntryPoint("mine", value, group)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry] if group == entry.group else [])
    return plugins.installed.__wrapped__()


@pytest.mark.parametrize(
    ("value", "target"),
    [
        ("pkg.mod:MyFilter [extra]", "pkg.mod:MyFilter"),
        ("pkg.mod : MyFilter", "pkg.mod:MyFilter"),
        ("pkg.mod:Outer.Inner", "pkg.mod:Outer.Inner"),
    ],
)
def test_a_value_is_read_as_entry_points_are(
    value: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert installed_from(monkeypatch, value)["relearn.defences"] == {"mine": target}


@pytest.mark.parametrize("value", ["pkg.mod", "pkg.mod:", "pkg-mod:MyFilter", "pkg.mod:A..B", ""])
def test_a_value_without_an_attribute_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = rf"group relearn\.defences: found 'mine' with the value '{value}', allowed: module:attribute$"
    with pytest.raises(ValueError, match=said):
        installed_from(monkeypatch, value)


@pytest.mark.parametrize(
    "target", ["relearn_example:Brightness", "relearn_exampel:X", "relearn_example:OneStage.Y"]
)
def test_an_entry_that_cannot_be_loaded_is_named(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from relearn.layers.efficient import kinds, make
    from relearn.methods import load
    from relearn.models import MODELS, create

    monkeypatch.setitem(MODELS, "mine", target)
    monkeypatch.setitem(kinds.RIVALS, "mine", target)
    monkeypatch.setattr(kinds, "KINDS", (*kinds.KINDS, "mine"))
    for what, call in (
        ("method", lambda: load({"mine": target}, "mine")),
        ("network", lambda: create("mine")),
        ("attention", lambda: make("mine", 8, 2, max_length=9)),
    ):
        said = (
            rf"^{what} 'mine': found {target}, which cannot be loaded \([^\n]*\), allowed: module:attribute$"
        )
        with pytest.raises(ValueError, match=said):
            call()


def test_an_attribute_may_be_inside_another() -> None:
    from relearn.methods import load

    found = load({"mine": "relearn_example:BrightnessFilter.fit_predict"}, "mine")
    assert found is relearn_example.BrightnessFilter.fit_predict


@pytest.mark.parametrize("name", ["performer", "window", "long_short_best"])
def test_an_attention_of_this_project_is_no_name_for_another(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = EntryPoint(name, "elsewhere:Layer", "relearn.attentions")
    monkeypatch.setattr(
        plugins, "entry_points", lambda group: [entry] if group == "relearn.attentions" else []
    )
    with pytest.raises(ValueError, match=rf"found the name '{name}', which relearn\.layers\."):
        plugins.installed.__wrapped__()


def test_a_registered_attention_is_built_by_name_and_counts_in_the_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from relearn.layers.efficient import kinds
    from relearn.models.lra_encoder import create

    sizes = {"vocabulary": 7, "classes": 3, "max_length": 9, "dim": 8, "attention_arguments": {"share": 0.2}}
    with pytest.raises(ValueError, match="'mean_mixing2'"):
        create("mean_mixing2", **sizes)
    found = {group: {} for group in plugins.GROUPS}
    found["relearn.attentions"] = {"mean_mixing2": "relearn_example:MeanMixing"}
    for module in (kinds, sys.modules["relearn.layers.efficient"]):
        monkeypatch.setattr(module, "KINDS", module.KINDS)  # as it was, after the test
    monkeypatch.setattr(kinds, "RIVALS", dict(kinds.RIVALS))
    monkeypatch.setattr(plugins, "installed", lambda: found)
    before = code_version("relearn.studies.long_short.steps.train_lra", kinds.module_of("performer"))
    plugins.register()
    net = create("mean_mixing2", **sizes)
    assert [one.share for one in net.attention_layers()] == [0.2, 0.2]
    assert net(torch.tensor([[1, 2, 3, 0]])).shape == (1, 3) and "mean_mixing2" in kinds.KINDS
    step = "relearn.studies.long_short.steps.train_lra"
    assert code_version(step, kinds.module_of("performer")) == before
    assert code_version(step, kinds.module_of("mean_mixing2")).endswith("+relearn_example")


def test_a_code_version_covers_the_whole_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "some_plugin"
    own.mkdir()
    (own / "__init__.py").write_text("")
    (own / "inner.py").write_text("FACTOR = 2  # twice\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    step = "relearn.methods.deep_knn"
    first = code_version(step, "some_plugin.inner")
    assert first.endswith("+some_plugin") and first != code_version(step) and plugins.needed(first)
    assert not plugins.needed(code_version(step))
    (own / "inner.py").write_text("FACTOR = 2  # a comment\n")
    assert code_version(step, "some_plugin.inner") == first
    (own / "inner.py").write_text("FACTOR = 3\n")
    assert code_version(step, "some_plugin.inner") != first
    with pytest.raises(ValueError, match="found the package not_there, which is not installed"):
        code_version(step, "not_there.inner")


def test_a_package_without_an_init_file_and_a_single_module_have_code_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bare_plugin/deeper/inner.py", "flat_plugin.py", "flat_neighbour.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("FACTOR = 2\n")
    (tmp_path / "only_data").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))

    def versions() -> list[str]:
        return [
            code_version("relearn.methods.deep_knn", one)
            for one in ("bare_plugin.deeper.inner", "flat_plugin")
        ]

    first = versions()
    assert first[0].endswith("+bare_plugin") and first[1].endswith("+flat_plugin")
    (tmp_path / "flat_neighbour.py").write_text("FACTOR = 3\n")
    assert versions() == first
    (tmp_path / "bare_plugin/deeper/inner.py").write_text("FACTOR = 3\n")
    (tmp_path / "flat_plugin.py").write_text("FACTOR = 3\n")
    assert versions()[0] != first[0] and versions()[1] != first[1]
    for name in ("only_data", "sys"):
        with pytest.raises(ValueError, match=f"found the package {name}, which is not installed"):
            code_version("relearn.methods.deep_knn", name)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the package."""
    copy, found = tmp_path_factory.mktemp("source") / "package", tmp_path_factory.mktemp("site")
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", found, copy], check=True)
    return found


@pytest.mark.slow
def test_a_pack_holds_the_plugins_of_its_jobs(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other machine, which has none installed, imports them and finds the names that they register."""
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "relearn_example")
    code = code_version("relearn.methods.deep_knn", "relearn_example")
    command, record = "relearn poisoning filter --out there", "a/b/record.json"
    what: dict[str, Any] = {"study": "poisoning", "step": "filter", "labels": {}, "scale": "mini", "seed": 0}
    what |= {"settings": {}, "code": code, "named_inputs": {}}
    job = Job("run", command, (), (record,), ("log",), record, **what)
    pack.write(tmp_path / "pack.tar", [job], 2**23)
    with tarfile.open(tmp_path / "pack.tar") as tar:
        tar.extractall(tmp_path, filter="data")
    words = "from relearn.methods import ATTACKS, load; from relearn.runs import plugins as p; p.register();"
    words += "print(load(ATTACKS, 'blended_target').__code__.co_filename); print(p.installed())"
    done = subprocess.run(
        [sys.executable, "-c", words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=True,
    )
    file, found = done.stdout.splitlines()
    assert Path(file) == tmp_path / "src/relearn_example.py"
    assert ast.literal_eval(found) == plugins.installed.__wrapped__()
    with pytest.raises(ValueError, match="found the package not_here, which is not installed"):
        pack.write(tmp_path / "pack.tar", [replace(job, code=f"{code}+not_here")], 2**23)


@pytest.mark.slow
def test_params_yaml_may_name_what_an_installed_package_registers(tmp_path: Path, site: Path) -> None:
    house = House(tmp_path / "checkout")
    house.env["PYTHONPATH"] = f"{site}:{house.root / 'src'}"
    before = house.records()
    codes = code_of(house, "before")
    house.set(
        {
            "poisoning.filter.brightness_filter": {"fraction": 0.05},
            "poisoning.craft.attacks.blended_target": {"eps": 0.2, "lr": 0.04, "iterations": 5},
            "poisoning.studies.transfer.blended_target": ["brightness_filter", "deep_knn"],
            "poisoning.pretrain.victims.architectures": ["SENet18", "ResNet18", "OneStage"],
            "gradinit.networks.halved": ["VGG-19-BN"],
            "gradinit.initialise.halved": {"factor": 0.25},
            "long_short.train_lra.tasks.listops.attentions": ["full", "mean_mixing2"],
            "long_short.train_lra.baselines.mean_mixing2": {"share": 0.2},
        }
    )
    new = set(house.records()) - set(before)
    runs = "results/mini/runs/poisoning"
    filtered = f"{runs}/filter/transfer/blended_target/brightness_filter/OneStage/seed0/record.json"
    trained = f"{runs}/train/transfer/blended_target/brightness_filter/OneStage/seed0/record.json"
    assert {filtered, trained, f"{runs}/craft/blended_target/seed0/record.json"} <= new
    with_plugins = code_of(house, "with")
    assert all(with_plugins[run] == code for run, code in codes.items())  # nothing else is stale
    assert (
        with_plugins["filter/transfer/blended_target/brightness_filter/OneStage/seed0"]
        .split()[0]
        .endswith("+relearn_example")
    )

    arena = "results/mini/runs/long_short/train_lra/listops/mean_mixing2/seed0/record.json"
    assert arena in new
    started = "results/mini/runs/gradinit/initialise/grid/VGG-19-BN/halved/seed0/record.json"
    assert started in new
    house.run("snakemake", "--cores", "2", "--quiet", "all", "--", trained, started)
    scales = (house.root / started).with_name("scales.csv").read_text().splitlines()
    assert len(scales) > 10 and all(line.endswith(",0.25") for line in scales[1:])
    record = json.loads((house.root / filtered).read_text())
    assert record["outcome"] == "ok" and record["settings"]["fraction"] == 0.05
    assert record["code"]["version"].endswith("+relearn_example")
    removed = record["metrics"]["poisons_removed_frac"] * 5 + record["metrics"]["clean_removed_frac"] * 495
    assert removed == pytest.approx(25, abs=1)  # a twentieth of 500 points
    house.run("relearn", "render", "--root", "results/mini", "--params", "params.yaml")

    house.set({"poisoning.studies.transfer.blended_target": ["brightnes_filter"]})
    wrong = subprocess.run(
        ["relearn", "validate"], cwd=house.root, env=house.env, capture_output=True, text=True
    )
    assert wrong.returncode and "brightness_filter" in wrong.stderr + wrong.stdout


def code_of(house: House, name: str) -> dict[str, str]:
    """Run → code version and identity, for the runs of poisoning."""
    house.run("relearn", "code", "--scale", "mini", "--out", name)
    (file,) = (house.root / name).glob("poisoning*")
    steps = yaml.safe_load(file.read_text())
    return {f"{step}/{run}": code for step, runs in steps.items() for run, code in runs.items()}


def test_registering_adds_and_replaces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from relearn.methods import DEFENCES, load

    monkeypatch.setattr(
        plugins, "installed", lambda: {"relearn.defences": {"brightness": "relearn_example:BrightnessFilter"}}
    )
    before = dict(DEFENCES)
    try:
        plugins.register()
        assert load(DEFENCES, "brightness") is relearn_example.BrightnessFilter
        assert before.items() <= DEFENCES.items()
    finally:
        DEFENCES.pop("brightness", None)
    assert before == DEFENCES


def test_a_section_takes_the_keys_of_plugins_and_keeps_only_those_given() -> None:
    class Inner(Section):
        a: Count

    names = Annotated[list[Annotated[str, OneOf(("x", "y"))]], Unique0]
    wide = also(["mine"], names)(Inner)
    assert check({"a": 1}, wide) == ({"a": 1}, [])
    assert check({"a": 1, "mine": ["x"]}, wide) == ({"a": 1, "mine": ["x"]}, [])
    ((key, text, _),) = check({"a": 1, "mine": ["z"]}, wide)[1]
    assert key == ("mine", 0) and "'z'" in text and "x, y" in text
    assert check({"a": 1, "other": []}, wide)[1] and check({"a": 1, "mine": []}, Inner)[1]
    ((_, text, _),) = check({"a": 1, "mine": 5}, also(["mine"], dict[str, Any])(Inner))[1]
    assert text == "found 5, allowed: a mapping"


def test_a_method_of_another_package_without_arguments_or_with_a_seed_is_refused() -> None:
    from relearn.studies.poisoning.params import Poisoning

    class Transfer(Section):
        mine: list[str]

    def conflicts(arguments: dict[str, int] | None, defence: dict[str, int] | None) -> list[Any]:
        section: Any = SimpleNamespace(
            studies=SimpleNamespace(transfer=Transfer(mine=["deep_knn", "brightness"])),
            craft=SimpleNamespace(attacks=SimpleNamespace(mine=arguments)),
            filter=SimpleNamespace(deep_knn={"k": 5}, brightness=defence),
        )
        return [".".join(map(str, key)) for key, _ in Poisoning._plugins(section)]

    assert conflicts({"eps": 1}, {"fraction": 1}) == []
    assert conflicts(None, {"fraction": 1}) == ["studies.transfer.mine"]
    assert conflicts({"eps": 1}, None) == ["studies.transfer.mine.1"]
    assert conflicts({"eps": 1}, {"fraction": 1, "seed": 0}) == ["filter.brightness.seed"]
