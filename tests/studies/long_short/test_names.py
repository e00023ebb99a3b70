"""The words that params.yaml may say of chapter 5 are those of the rooms, and what the rules count is what they hold."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any, get_args

import pytest

from relearn.data import facts, lra, text_streams, wikipedia_streams
from relearn.data.corruptions import NAMES
from relearn.data.lra import images, retrieval, text
from relearn.data.prepared_stream import HELD_OUT
from relearn.data.streams import STREAMS
from relearn.layers.efficient import KINDS, kinds
from relearn.models.timm_names import NAMES as TIMM_NAMES
from relearn.steps import count_families
from relearn.studies.long_short import networks, plan_images
from relearn.studies.long_short import params as words
from relearn.studies.long_short import params_rules as schema_rules_long_short
from relearn.studies.long_short.steps import train_long_char_lm as predict
from relearn.studies.robustness import params as schema_robustness
from relearn.studies.robustness.steps import folder_sets

RIVALS = list(words.Rivals.model_fields)


def values(model: Any, field: str) -> set[str]:
    """The words that a field allows, in a list or alone."""
    found = model.model_fields[field].annotation
    return set(get_args(get_args(found)[0] if str(found).startswith("list") else found))


def test_attentions_and_tasks_are_those_of_the_rooms() -> None:
    assert set(get_args(words.Attention)) == set(KINDS)
    assert set(RIVALS) <= set(KINDS)
    sections = (words.Sequences, words.Tasks)
    assert all(tuple(section.model_fields) == lra.TASKS for section in sections)
    assert schema_rules_long_short.TASKS == lra.TASKS
    assert set(words.TextLengths.model_fields) <= set(lra.TASKS)
    assert {*get_args(words.Family)} == set(count_families.FAMILIES)


@pytest.mark.parametrize("kind", RIVALS)
def test_a_rival_has_the_arguments_that_params_yaml_says(kind: str) -> None:
    said = set(words.Rivals.model_fields[kind].annotation.model_fields)  # type: ignore[union-attr]
    module, _, name = kinds.RIVALS[kind].partition(":")
    known = inspect.signature(getattr(import_module(module), name)).parameters
    assert said <= {key for key, one in known.items() if isinstance(one.default, int)}


def test_data_sets_are_those_of_the_rooms() -> None:
    assert values(words.Text, "dataset") == set(text.DATASETS)
    assert values(words.Retrieval, "dataset") == set(retrieval.DATASETS)
    assert values(words.Pixels, "dataset") == set(images.DATASETS) <= set(facts.SIDE)
    assert values(words.Stream, "datasets") < set(STREAMS)  # whose own text is one says which
    assert values(words.Evaluation, "form") == set(predict.FORMS)
    assert schema_rules_long_short.HELD_OUT == HELD_OUT
    assert {
        **dict.fromkeys(("enwik8", "text8"), wikipedia_streams.BYTES),
        "warandpeace": text_streams.NOVEL.size,
    } == schema_rules_long_short.MOST_CHARACTERS


def test_networks_are_those_that_the_workflow_builds() -> None:
    names = networks.NAMES
    assert set(names) == set(get_args(words.Network))
    ours = {name for name in names.values() if name not in ("resnet50", "swin_tiny_patch4_window7_224")}
    assert ours <= set(TIMM_NAMES)
    for name, stages in schema_rules_long_short.STAGES.items():
        for network in (network for network in names if network.startswith(f"{name}-")):
            if names[network] in ours:
                assert len(TIMM_NAMES[names[network]][1]["depths"]) == stages, network
    published = TIMM_NAMES["residual_deit_small"][1].get("patch_size", 16)
    assert published == schema_rules_long_short.DEIT_PATCH * 4
    assert {*plan_images.COUNTED, "gradient"} == set(count_families.FAMILIES)


def test_what_is_withstood_is_known_to_the_step() -> None:
    assert (
        get_args(schema_robustness.Corruption) == tuple(NAMES)[: len(get_args(schema_robustness.Corruption))]
    )
    assert set(schema_robustness.Sets.model_fields) == set(folder_sets.NAMES)
    assert tuple(schema_robustness.Protocol.model_fields) == folder_sets.KEYS
    for name, allowed in folder_sets.POLICIES.items():
        assert values(schema_robustness.Protocol, name) == set(allowed)
