"""One reader for both engines: overlays, messages with their place, what the command line may add."""

import copy
import functools
import inspect
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relearn.methods import ATTACKS, DEFENCES, crafting, end_to_end, transfer
from relearn.methods import load as method
from relearn.params import messages as faults
from relearn.params import reading as params
from relearn.studies import parameters

from .rules import value_at

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = yaml.safe_load((ROOT / "params.yaml").read_text())
READ_ONCE = functools.cache(params.read)
BASE = params.leaves(parameters.load(ROOT / "params.yaml", scale="mini"))
PAPER = parameters.load(ROOT / "params.yaml", scale="paper")["poisoning"]
OVERLAID = params.SCALES[1:]
SECTION_OF = {key: ".".join(key.split(".")[:2]) for key in BASE}
SECTIONS = {
    section: [key for key in BASE if SECTION_OF[key] == section]
    for section in dict.fromkeys(SECTION_OF.values())
}  # a test each: one a key would be 1,600 tests of which each takes longer to start than to run
METHOD_OF = {"multi_layer_as_released": "multi_layer", "white_box_watermark": "white_box_collision"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """params.yaml and its overlays, to be spoilt."""
    shutil.copy(ROOT / "params.yaml", tmp_path)
    shutil.copytree(ROOT / "params", tmp_path / "params")
    return tmp_path


def refused(*args: Any, **options: Any) -> list[str]:
    with pytest.raises(params.ParamsError) as caught:
        parameters.load(*args, **options)
    assert str(caught.value) == "\n".join(caught.value.problems)
    assert all("\n" not in line for line in caught.value.problems)
    return caught.value.problems


def edit(path: Path, old: str, new: str) -> int:
    """Replace one value in a file and return its line."""
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    return text[: text.index(old)].count("\n") + 1 + (len(old) - len(old.lstrip("\n")))


def write(path: Path, tree: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(tree, sort_keys=False))


def place(tree: dict[str, Any], key: str) -> tuple[dict[str, Any], str]:
    """The mapping that contains a leaf, and the leaf's name in it."""
    above, _, last = key.rpartition(".")
    return value_at(tree, above), last


def only(key: str, value: Any) -> dict[str, Any]:
    """A tree of one leaf."""
    for name in reversed(key.split(".")):
        value = {name: value}
    return value


# --- the files that we ship


def test_params_yaml_is_whole() -> None:
    """Every key of the schema is in the file that a reader opens, whatever the overlays contain."""
    written = params.leaves(SHIPPED)
    sections = {
        key
        for key in faults.known_keys(parameters.schema())
        if any(leaf.startswith(f"{key}.") for leaf in written)
    }
    assert set(faults.known_keys(parameters.schema())) == set(written) | sections


@pytest.mark.parametrize("scale", OVERLAID)
def test_an_overlay_validates_and_lies_over_leaf_by_leaf(scale: str) -> None:
    overlay = params.leaves(yaml.safe_load((ROOT / f"params/{scale}.yaml").read_text()))
    loaded = params.leaves(parameters.load(ROOT / "params.yaml", scale=scale))
    assert loaded == {**BASE, **overlay, "scale": scale}
    assert list(loaded) == list(BASE)


def test_paper_yaml_leaves_nothing_to_the_default_scale() -> None:
    stated = params.leaves(yaml.safe_load((ROOT / "params/paper.yaml").read_text()))
    assert set(stated) == set(BASE) - {"scale"}


@pytest.mark.parametrize("file", ["params.yaml", "params/small.yaml", "params/medium.yaml"])
def test_lines_can_be_read_without_scrolling(file: str) -> None:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > 120] == []


@pytest.mark.parametrize("attack", PAPER["craft"]["attacks"])
def test_an_attack_takes_its_section_and_defaults_to_the_published_values(attack: str) -> None:
    """Of several runs of one method the plain one has the defaults; eq. 2.1 has no box, and no value for mu."""
    craft = method(ATTACKS, METHOD_OF.get(attack, attack))
    section = dict(PAPER["craft"]["attacks"][attack])
    if METHOD_OF.get(attack, attack) == "white_box_collision":
        assert section.pop("eps") == 1.0
        assert section.pop("mu_multiple") == 1.0  # of the authors' rule
        assert section.pop("watermark", 0.3) == 0.3
    if attack == "gradient_matching":
        assert section.pop("parameters") == "head"  # of all of them at once no large network fits
        assert (
            section.pop("iterations") * section.pop("restarts") == 4000
        )  # all starts cost what one attack does
        assert section.pop("augment") == {
            "crop_padding": 4,
            "flip": True,
        }  # off by default, as in the small scales
    assert_bound(craft, section)


@pytest.mark.parametrize("defence", DEFENCES)
def test_a_defence_takes_its_section_and_defaults_to_the_published_values(defence: str) -> None:
    section = dict(PAPER["filter"][defence])
    section.pop("sweep", None)  # of the step: many k in one search
    if defence == "random_eviction":  # one fraction for each attack
        section = {"fraction": section["feature_collision_fraction"]}
    assert_bound(method(DEFENCES, defence), section)


def test_fine_tuning_takes_its_section_and_defaults_to_the_published_values() -> None:
    section = dict(PAPER["train"]["transfer"])
    assert section.pop("train_mode") is False  # of the step: a network in evaluation mode, as released
    assert_bound(transfer.fine_tune, {**section, "milestones": tuple(section["milestones"])})
    section = {
        **PAPER["train"]["end_to_end"],
        "milestones": tuple(PAPER["train"]["end_to_end"]["milestones"]),
    }
    assert section.pop("test_images") == 10_000  # of the step: the whole test set
    assert section.pop("train_mode") is False
    assert_bound(end_to_end.fine_tune_network, section)


def assert_bound(function: Any, section: dict[str, Any]) -> None:
    arguments = dict(inspect.signature(function).parameters)
    if "options" in arguments:  # of the loop that all attacks share
        arguments = {**inspect.signature(crafting.craft).parameters, **arguments}
    assert set(section) <= set(arguments)
    assert {name: arguments[name].default for name in section} == section


# --- messages: every leaf, spoilt


WRONG: dict[type, str] = {bool: "word", int: "word", float: "word", str: "7", list: "word"}


@pytest.fixture
def one_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is read once for all keys that are tried over it: reading takes most of the time."""
    monkeypatch.setattr(params, "read", READ_ONCE)


def lines_of(tree: dict[str, Any], path: Path) -> dict[str, int]:
    """Write a tree of mappings and scalars; the line of each leaf, which are in the file as in the tree."""
    write(path, tree)
    lines = [number for number, text in enumerate(path.read_text().splitlines(), 1) if text[-1] != ":"]
    return dict(zip(params.leaves(tree), lines, strict=True))


def test_a_wrong_type_is_refused_with_file_line_and_key(folder: Path) -> None:
    """All of them in one file: each is reported, in the order of the file, and nothing else is."""
    path, tree = folder / "params.yaml", copy.deepcopy(SHIPPED)
    for key, value in BASE.items():
        branch, last = place(tree, key)
        branch[last] = yaml.safe_load(WRONG[type(value)])
    for (key, line), found in zip(lines_of(tree, path).items(), refused(path), strict=True):
        assert found.startswith(f"{path}:{line}: {key}: found ")
        assert "allowed: " in found


@pytest.mark.usefixtures("one_reading")
@pytest.mark.parametrize(
    "section", [name for name in SECTIONS if name != "scale"]
)  # which the file alone says
def test_a_wrong_type_is_refused_alone(section: str) -> None:
    """It does not matter which cross-key rules it suppresses or which valid values surround it."""
    for key in SECTIONS[section]:
        found = refused(ROOT / "params.yaml", overrides=only(key, yaml.safe_load(WRONG[type(BASE[key])])))
        assert found[0].startswith(f"override: {key}: found ")
        assert "allowed: " in found[0]


def test_an_unknown_neighbour_is_refused_with_file_line_and_key(folder: Path) -> None:
    """All of them in one file, each next to the intended key."""
    path, tree = folder / "params.yaml", copy.deepcopy(SHIPPED)
    for key in BASE:
        branch, last = place(tree, key)
        branch[f"{last}_"] = 7
    write(path, tree)
    unknown = [n for n, text in enumerate(path.read_text().splitlines(), 1) if text.endswith("_: 7")]
    keys = [key for key in params.leaves(tree) if key.endswith("_")]
    for key, line, found in zip(keys, unknown, refused(path), strict=True):
        assert found.startswith(f"{path}:{line}: {key}: unknown key, ")


@pytest.mark.usefixtures("one_reading")
@pytest.mark.parametrize("section", SECTIONS)
def test_an_unknown_neighbour_is_refused_with_the_name_that_was_meant(section: str) -> None:
    for key in SECTIONS[section]:
        (found,) = refused(ROOT / "params.yaml", overrides=only(f"{key}_", BASE[key]))
        assert found.startswith(f"override: {key}_: unknown key, ")
        assert key.rpartition(".")[2] in found


def test_every_key_is_in_a_section() -> None:
    assert sorted(key for keys in SECTIONS.values() for key in keys) == sorted(BASE)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=st.sets(st.sampled_from(sorted(set(BASE) - {"scale"})), min_size=1, max_size=6))
def test_all_errors_are_reported_at_once(folder: Path, keys: set[str]) -> None:
    path = folder / "spoilt.yaml"
    tree = copy.deepcopy(SHIPPED)
    for key in keys:
        branch, last = place(tree, key)
        branch[last] = {"a": 1}
    write(path, tree)
    found = refused(path)
    assert {line.split(": ")[1] for line in found} == keys
    numbers = [int(line.split(":")[1]) for line in found]
    assert numbers == sorted(numbers)


def test_syntax_and_schema_errors_are_reported_together_and_once(folder: Path) -> None:
    path = folder / "params.yaml"
    first = edit(path, "lr: 0.05 ", "lr: 5e-2 ")
    second = edit(path, "poisons: 5  ", "poisons: 0  ")
    assert [line.split(", allowed")[0] for line in refused(path)] == [
        f"{path}:{first}: poisoning.pretrain.training.lr: found 5e-2",
        f"{path}:{second}: poisoning.craft.poisons: found 0",
    ]


def test_an_error_in_the_overlay_is_reported_with_its_line(folder: Path) -> None:
    over = folder / "params/small.yaml"
    over.write_text(
        "poisoning:\n  adversarial_training:\n    training: {epoch: 9}\n  craft: {targets: 1000}\n"
    )
    first, second = refused(folder / "params.yaml", scale="small")
    assert (
        f"{over}:3: poisoning.adversarial_training.training.epoch: unknown key, nearest known name: epochs;"
        in first
    )
    assert f"{over}:4: poisoning.craft.targets: found 1000, allowed: at most" in second
    assert parameters.load(folder / "params.yaml", scale="mini")  # which that file does not touch


def test_a_missing_key_is_reported_at_its_section(folder: Path) -> None:
    path = folder / "params.yaml"
    line = edit(path, "      attack: convex_polytope\n", "      # attack: convex_polytope\n") - 1
    (found,) = refused(path)
    assert found == f"{path}:{line}: poisoning.studies.overlap.attack: missing, allowed: convex_polytope"


@pytest.mark.parametrize("scale", ["Small", "large", "", "mini ", 3])
def test_an_unknown_scale_is_refused(folder: Path, scale: Any) -> None:
    (found,) = refused(folder / "params.yaml", scale=scale)
    assert found.startswith("scale: found ")
    assert "allowed: mini, small, medium, paper" in found


def test_a_misspelt_scale_in_the_file_is_answered_with_the_nearest(folder: Path) -> None:
    edit(folder / "params.yaml", "scale: mini ", "scale: smal ")
    (found,) = refused(folder / "params.yaml")
    assert ": scale: found 'smal' (text), allowed: mini, small, medium, paper; nearest: small" in found


def test_a_missing_overlay_and_one_that_names_a_scale_are_refused(folder: Path) -> None:
    (folder / "params/medium.yaml").unlink()
    assert "params/medium.yaml: cannot be read" in refused(folder / "params.yaml", scale="medium")[0]
    edit(folder / "params/small.yaml", "poisoning:\n", "scale: small\npoisoning:\n")
    assert ": scale: found here, allowed: only in " in refused(folder / "params.yaml", scale="small")[0]


def test_an_overlay_s_scalar_over_a_section_is_refused(folder: Path) -> None:
    (folder / "params/small.yaml").write_text("poisoning:\n  train: 3\n")
    found = refused(folder / "params.yaml", scale="small")
    assert "small.yaml:2: poisoning.train: found 3, allowed: a mapping of" in found[0]


def test_the_scale_of_the_file_counts_where_none_is_given(folder: Path) -> None:
    edit(folder / "params.yaml", "scale: mini ", "scale: small ")
    assert parameters.load(folder / "params.yaml") == parameters.load(ROOT / "params.yaml", scale="small")


# --- hidden values, sections, the command line


def test_a_value_that_the_overlay_hides_is_announced_and_no_other(folder: Path) -> None:
    path = folder / "params.yaml"
    (folder / "params/small.yaml").write_text(
        "poisoning:\n  craft: {targets: 20, poisons: 3}\n  seeds: [0, 1]\n"
    )
    assert params.hidden_by_overlay(path, "small") == ["poisoning.craft.poisons", "poisoning.seeds"]
    edit(path, "targets: 20 ", "targets: 19 ")  # an edit without effect at this scale
    edit(path, "epochs: 300", "epochs: 301")  # an edit with effect
    assert params.hidden_by_overlay(path, "small") == [
        "poisoning.craft.targets",
        "poisoning.craft.poisons",
        "poisoning.seeds",
    ]
    line = params.hidden_line(path, "small")
    assert line.startswith(f"{folder / 'params/small.yaml'} overrides 3 values of {path}: ")
    assert line.endswith("poisoning.craft.targets, poisoning.craft.poisons, poisoning.seeds")
    assert params.hidden_by_overlay(path, "mini") == []
    short = params.hidden_line(path, "small", most=1)
    assert short.startswith(line.split(",")[0]) and short.endswith(
        "`relearn validate --scale small` names all)"
    )
    assert params.hidden_line(path, "small", most=3) == line
    assert params.hidden_line(path) == ""


def test_what_is_loaded_is_ours_to_change() -> None:
    first = parameters.load(ROOT / "params.yaml")
    first["poisoning"]["seeds"].append(9)
    assert parameters.load(ROOT / "params.yaml")["poisoning"]["seeds"] == [0]


def test_the_machine_s_settings_have_defaults() -> None:
    config = yaml.safe_load((ROOT / "params.yaml").read_text())
    expected = {"device": "auto", "precision": "fp32", "mirror": None, "minutes": None}
    assert params.machine({}, ROOT / "params.yaml") == expected
    assert params.machine({**config, "scale": "small"}, ROOT / "params.yaml") == expected


@pytest.mark.parametrize(
    "config",
    [{"device": name} for name in ("auto", "cpu", "cuda", "cuda:0", "cuda:12")]
    + [{"precision": "bf16"}, {"mirror": "some where"}, {"minutes": 15}],
)
def test_the_machine_s_settings_pass(config: dict[str, Any]) -> None:
    assert params.machine(config, ROOT / "params.yaml").items() >= config.items()


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"device": "gpu"}, "--config device: found 'gpu' (text), allowed: auto, cpu, cuda or cuda:N"),
        ({"device": "cuda:01"}, "--config device: found"),
        ({"device": "cuda:0\n"}, "--config device: found"),
        ({"device": 0}, "--config device: found 0"),
        ({"precision": "fp16"}, "--config precision: found 'fp16' (text), allowed: fp32, bf16"),
        ({"precision": ["fp32"]}, "--config precision: found"),
        ({"mirror": 3}, "--config mirror: found 3"),
        ({"mirror": ""}, "--config mirror: found ''"),
        ({"minutes": 0}, "--config minutes: found 0"),
        ({"minutes": True}, "--config minutes: found"),
        ({"minutes": "15"}, "--config minutes: found '15' (text), allowed: a whole number, 1 or more"),
        ({"devise": "cpu"}, "--config devise: unknown key, nearest known name: device;"),
        ({"poisoning": {"seeds": [1]}}, "--config poisoning: found values that"),
    ],
)
def test_anything_else_on_the_command_line_is_refused(config: dict[str, Any], text: str) -> None:
    with pytest.raises(params.ParamsError) as caught:
        params.machine(config, ROOT / "params.yaml")
    (line,) = caught.value.problems
    assert line.startswith(text)


def test_only_loading_needs_the_schema_s_library() -> None:
    """A machine without pydantic can import the reader, and read what is no schema's business."""
    code = (
        "import sys; sys.modules['pydantic'] = None\n"
        "from relearn.params import reading as params\n"
        "from relearn.studies import parameters\n"
        "assert params.machine({'device': 'cpu'}, 'params.yaml')['device'] == 'cpu'\n"
        "assert params.hidden_by_overlay('params.yaml', 'small')\n"
        "assert 'torch' not in sys.modules and 'relearn.params.types' not in sys.modules\n"
        "try: parameters.load('params.yaml')\n"
        "except ImportError: print('as expected')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("as expected\n", "")
