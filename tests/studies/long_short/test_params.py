"""Names and sizes that params.yaml allows for long_short are those of the data sets, attentions and networks."""

import dataclasses
import inspect
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest

from relearn.data import facts, lra, text_streams, wikipedia_streams
from relearn.data.corruptions import NAMES
from relearn.data.lra import images, retrieval, text
from relearn.data.prepared_stream import HELD_OUT
from relearn.data.streams import STREAMS
from relearn.layers.efficient import kinds
from relearn.models.timm_names import NAMES as TIMM_NAMES
from relearn.params import reading
from relearn.studies import parameters
from relearn.studies.long_short import networks, params, params_lra, params_text, plan_images
from relearn.studies.long_short.steps import count_params_flops, train_long_char_lm
from relearn.studies.robustness import params as schema_robustness
from relearn.studies.robustness.steps import folder_pixels, folder_sets

ROOT = Path(__file__).resolve().parents[3]


def test_a_broken_phase_silences_its_own_checks_alone() -> None:
    """Checks of one phase still report when another phase lacks a key."""
    good = {"length": 64, "steps": 3, "warmup_steps": 4, "batch_size": 2, "lr": 0.1}
    phases = [good, {key: value for key, value in good.items() if key != "warmup_steps"}]
    changes = {"long_short": {"train_long_char_lm": {"phases": phases}}}
    with pytest.raises(reading.ParamsError) as caught:
        parameters.load(ROOT / "params.yaml", overrides=changes)
    text = "\n".join(caught.value.problems)
    assert "phases[0].warmup_steps: found 4, allowed: at most steps = 3" in text
    assert "phases[1].warmup_steps: missing" in text


BASELINES = list(params_lra.Baselines.model_fields)


def values(model: Any, field: str) -> set[str]:
    """The names that a field allows, in a list or alone."""
    found = model.model_fields[field].annotation
    return set(get_args(get_args(found)[0] if str(found).startswith("list") else found))


def test_tasks_are_those_of_the_arena() -> None:
    sections = (params_lra.PrepareLra, params_lra.Tasks)
    assert all(tuple(section.model_fields) == lra.TASKS for section in sections)
    assert set(params_lra.TextLengths.model_fields) <= set(lra.TASKS)


@pytest.mark.parametrize("kind", BASELINES)
def test_a_baseline_has_the_arguments_that_params_yaml_gives_it(kind: str) -> None:
    given = set(params_lra.Baselines.model_fields[kind].annotation.model_fields)  # type: ignore[union-attr]
    module, _, name = kinds.RIVALS[kind].partition(":")
    known = inspect.signature(getattr(import_module(module), name)).parameters
    assert given <= {key for key, one in known.items() if isinstance(one.default, int)}


def test_data_sets_are_those_that_can_be_loaded() -> None:
    assert values(params_lra.Text, "dataset") == set(text.DATASETS)
    assert values(params_lra.Retrieval, "dataset") == set(retrieval.DATASETS)
    assert values(params_lra.Pixels, "dataset") == set(images.DATASETS) <= set(facts.SIDE)
    assert values(params_text.PrepareCharStream, "datasets") < set(STREAMS)  # own_text has no fixed size
    assert values(params_text.Evaluation, "form") == set(train_long_char_lm.FORMS)
    assert params_text.HELD_OUT == HELD_OUT
    assert {
        **dict.fromkeys(("enwik8", "text8"), wikipedia_streams.BYTES),
        "warandpeace": text_streams.NOVEL.size,
    } == params_text.MOST_CHARACTERS


def test_networks_and_their_stages_are_those_of_the_registry() -> None:
    names = networks.NAMES
    ours = {name for name in names.values() if name not in ("resnet50", "swin_tiny_patch4_window7_224")}
    assert ours <= set(TIMM_NAMES)
    for name, stages in networks.STAGES.items():
        for network in (network for network in names if network.startswith(f"{name}-")):
            if names[network] in ours:
                assert len(TIMM_NAMES[names[network]][1]["depths"]) == stages, network
    published = TIMM_NAMES["residual_deit_small"][1].get("patch_size", 16)
    assert published == networks.DEIT_PATCH * 4


def test_families_are_those_that_are_counted() -> None:
    assert set(get_args(params.Family)) == set(plan_images.COUNTED) == set(count_params_flops.FAMILIES)


def test_what_is_withstood_is_known_to_the_step() -> None:
    assert tuple(get_args(schema_robustness.Corruption)[1].names) == tuple(NAMES)
    assert set(schema_robustness.Sets.model_fields) == set(folder_sets.NAMES)
    own = {one.name for one in dataclasses.fields(folder_pixels.Decoding)}
    assert set(schema_robustness.Protocol.model_fields) == own - {"crop_mode"}
    assert set(get_args(schema_robustness.Fault)) == set(get_args(folder_pixels.Policy))
