"""The section ``poisoning`` of params.yaml: its names are those of the registries, and of the runs that the plan makes.

Every attack has a card, every card says everything, and the reference to the source is among it.
"""

import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from relearn.methods import ATTACKS, DEFENCES
from relearn.models import MODELS
from relearn.params.reading import ParamsError
from relearn.studies import parameters
from relearn.studies.family import Family
from relearn.studies.poisoning import params, params_studies
from relearn.studies.poisoning.plan import plan
from relearn.studies.poisoning.plan.poisons import FORM_OF, METHOD_OF, entry_of

CHECKOUT = Path(__file__).resolve().parents[3]


def problems(**own: Any) -> list[str]:
    try:
        parameters.load(CHECKOUT / "params.yaml", overrides={"poisoning": own})
    except ParamsError as error:
        return error.problems
    return []


def test_names_are_those_of_the_registries() -> None:
    assert set(params_studies.PUBLISHED) <= set(MODELS)
    assert set(params.Filter.model_fields) == set(DEFENCES)


def test_every_attack_of_the_parameters_has_a_method_and_every_method_an_attack() -> None:
    attacks = set(params.Attacks.model_fields)
    assert set(METHOD_OF) <= attacks and set(FORM_OF) <= attacks
    assert {METHOD_OF.get(attack, attack) for attack in attacks} == set(ATTACKS)


def test_every_attack_of_a_study_has_its_section() -> None:
    named_in_studies: set[str] = set(params_studies.TransferStudy.model_fields)
    for study in params_studies.Studies.model_fields.values():
        for name in ("attacks", "attack"):
            if field := getattr(study.annotation, "model_fields", {}).get(name):
                node = field.annotation
                while get_origin(node) is not Literal:
                    node = get_args(node)[0]
                named_in_studies |= set(get_args(node))
    assert {entry_of(name) for name in named_in_studies} == set(params.Attacks.model_fields)


def test_the_pool_may_be_all_fine_tuning_images_but_the_targets() -> None:
    others: dict[str, Any] = {"craft": {"targets": 1}, "studies": {"end_to_end": {"targets": 1}}}
    assert problems(prepare={"pool_per_class": 51}, **others) == []
    found = problems(prepare={"pool_per_class": 50}, **others)
    assert len(found) == 1
    assert "at most pool_per_class - fine_tune_per_class = 0" in found[0]


def test_attacks_on_a_known_victim_are_crafted_with_its_weights_in_the_ball_of_the_others() -> None:
    values = parameters.load(CHECKOUT / "params.yaml", scale="small")
    families = plan(values, "small")
    victim, known_to = (values["poisoning"]["studies"]["white_box"][key] for key in ("victim", "attacks"))
    transferred = {name.removeprefix("white_box_") for name in known_to} & ATTACKS.keys()
    assert {"feature_collision", "convex_polytope"} <= transferred
    for name in transferred:
        known, unknown = (families["craft"].settings_of(attack=one) for one in (f"white_box_{name}", name))
        assert known["eps"] == unknown["eps"] and known["attack"] == unknown["attack"] == name
        (weights,) = families["craft"].inputs_of(seed="0", attack=f"white_box_{name}")["substitutes"]
        assert f"/victim/{victim}-drop0/" in weights
        cell = {"setting": "transfer", "attack": f"white_box_{name}", "defence": "none", "victim": victim}
        assert families["train"].settings_of(**cell)["knowledge"] == "white_box"
        assert families["train"].paths(**cell)


def test_what_a_scale_leaves_out_changes_no_other_run() -> None:
    """Runs, settings and inputs at small are those of the whole study without the left-out attacks and overlap."""
    values = parameters.load(CHECKOUT / "params.yaml", scale="small")
    own = values["poisoning"]["studies"]
    studies = {**own, "left_out": [], "overlap": {**own["overlap"], "shared": ["full", "half", "disjoint"]}}
    whole = plan({**values, "poisoning": {**values["poisoning"], "studies": studies}}, "small")

    def jobs(families: dict[str, Family]) -> dict[str, Any]:
        return {
            family.path(**run): (family.settings_of(**cell_of(run)), family.inputs_of(**run))
            for family in families.values()
            for run in family.runs
        }

    few, all_of_them = jobs(plan(values, "small")), jobs(whole)
    assert {path: all_of_them[path] for path in few} == few
    gone = all_of_them.keys() - few.keys()
    words = [f"/{name}/" for name in own["left_out"]] + ["/victim_half/", "/overlap_half/", "-middle_half/"]
    assert gone == {path for path in all_of_them if any(word in path for word in words)} and len(gone) > 20
    made = {path for family in plan(values, "small").values() for path in family.everything()}
    assert {path for _, inputs in few.values() for paths in inputs.values() for path in paths} <= made


def cell_of(run: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in run.items() if name != "seed"}


def test_half_the_depth_is_that_of_the_named_networks_alone() -> None:
    values = parameters.load(CHECKOUT / "params.yaml", scale="small")
    family = plan(values, "small")["pretrain"]
    depths = {cell["network"]: family.settings_of(**cell)["depth"] for cell in family.cells}
    assert depths == {name: 0.5 if name.startswith("ResNet50-") else 1.0 for name in depths}
    assert set(depths.values()) == {0.5, 1.0}


def test_every_scale_on_cifar10_attacks_the_published_targets() -> None:
    for scale in ("small", "medium", "paper"):
        own = parameters.load(CHECKOUT / "params.yaml", scale=scale)["poisoning"]
        assert own["prepare"]["pool_start"] == 4800 and own["craft"]["poisons"] == 5
        assert (own["craft"]["poison_class"], own["craft"]["target_class"]) == (8, 6)
    assert parameters.load(CHECKOUT / "params.yaml", scale="paper")["poisoning"]["craft"]["targets"] == 50


def test_what_the_public_code_does_can_be_reached() -> None:
    released = {
        "craft": {"attacks": {"convex_polytope": {"target_dropout": "fixed"}}},
        "filter": {"deep_knn": {"label_ties": "smallest", "include_self": True}},
        "train": {"transfer": {"train_mode": True, "milestones": []}},
    }
    assert problems(**released) == []
    values = parameters.load(CHECKOUT / "params.yaml", overrides={"poisoning": released})
    families = plan(values, "mini")
    knn = {"setting": "transfer", "attack": "convex_polytope", "defence": "deep_knn", "victim": "ResNet18"}
    assert families["craft"].settings_of(attack="convex_polytope")["target_dropout"] == "fixed"
    assert families["filter"].settings_of(**knn)["label_ties"] == "smallest"
    assert families["train"].settings_of(**knn)["train_mode"] is True


PAGE = (Path(__file__).parents[3] / "docs/threat-models.md").read_text(encoding="utf-8")
CARDS = dict(re.findall(r"^## `(\w+)`:[^\n]*\n(.*?)(?=^## )", PAGE, re.S | re.M))
LINES = (
    *(
        "Goal",
        "Knowledge",
        "May change",
        "Budget and norm",
        "Poisons",
        "Labels",
        "Evaluated",
        "What it is not",
    ),
    "Source",
)


@pytest.mark.parametrize("name", sorted({*ATTACKS, "white_box_watermark", "pgd"}))
def test_every_attack_has_a_whole_card(name):
    rows = dict(re.findall(r"^\| ([^|]+?) \| (.+?) \|$", CARDS[name], re.M))
    assert tuple(rows) == LINES
    assert all(len(text) > 3 for text in rows.values())


def test_no_card_without_an_attack():
    assert set(CARDS) == {*ATTACKS, "white_box_watermark", "pgd"}


def test_every_attack_that_the_parameters_name_is_on_the_page():
    import yaml

    named = yaml.safe_load((Path(__file__).parents[3] / "params.yaml").read_text())["poisoning"]["craft"][
        "attacks"
    ]
    for name in named:
        assert f"`{name}`" in PAGE, name


def test_the_page_says_how_to_use_it():
    assert "## Responsible use" in PAGE
