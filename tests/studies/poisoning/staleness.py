"""What each leaf of ``poisoning`` in params.yaml touches, for tests/workflow/test_staleness.py."""

from collections.abc import Callable
from typing import Any

P = "poisoning"
S = f"{P}.studies"
A = f"{P}.craft.attacks"
NEW = "GoogLeNet"  # in no list of the scratch checkout
ALONE, OTHER = "SENet18", "ResNet18"  # its victims; the first in every study, the second in one

STEPS = {
    *("prepare_images", "split_overlap", "pretrain", "adversarial_training", "craft", "filter", "train"),
    *("evaluate_networks", "feature_plane", "hull_proposition", "toy_example"),
}

NETWORKS = ["pretrain/*", "adversarial_training/*", "evaluate_networks/*", "feature_plane/*"]
BELOW = ["craft/*", "filter/*", "train/*", "render"]
WITH_NETWORKS = [*NETWORKS, *BELOW]
WITH_DATA = ["prepare_images/*", "split_overlap/*", *WITH_NETWORKS]
ON_S1 = [
    "feature_collision",
    "feature_collision_no_dropout",
    "convex_polytope",
    "bullseye_polytope",
    "gradient_matching",
    "adaptive_polytope",
]
LAYERS = ["multi_layer", "multi_layer_as_released"]
# What follows from the substitutes of the end-to-end study, once they differ from those of the transfer study.
S2 = ["craft/convex_polytope_s2/*", "train/end_to_end/convex_polytope/*"]


def below(*attacks: str) -> list[str]:
    """Runs that read the poisons of an attack, and the report: every study has its own attacks."""
    filtered = [name for name in attacks if name in ("feature_collision", "convex_polytope")]
    trained = [name for name in attacks if not name.endswith("_no_dropout")]
    plane = [name for name in attacks if name == "convex_polytope"]
    return [
        *(f"filter/*/{name}/*" for name in filtered),
        *(f"train/*/{name}/*" for name in trained),
        *(f"feature_plane/{name}/*" for name in plane),
        "render",
    ]


def of_attack(*names: str) -> list[str]:
    return [*(f"craft/{name}/*" for name in names), *below(*names)]


def of_defence(name: str, setting: str = "*", attack: str = "*") -> list[str]:
    return [*(f"{step}/{setting}/{attack}/{name}/*" for step in ("filter", "train")), "render"]


def network(role: str, name: str) -> list[str]:
    return [f"pretrain/{role}/{name}/*", f"evaluate_networks/{role}/{name}/*"]


# Key pattern → stages that it changes themselves, runs that are made again. The first that fits counts. A pattern
# of a run that the scratch checkout does not have at all is idle and left out here.
TOUCHES: list[tuple[str, set[str], list[str]]] = [
    (f"{P}.seeds", {P, "render"}, ["*/seed1", "render"]),
    (f"{P}.prepare.dataset", {P, "render"}, WITH_DATA),  # a folder of another name is read
    (f"{P}.prepare.*", {P}, WITH_DATA),
    *(
        (
            f"{P}.pretrain.substitutes.{key}",  # the train stage asks whether a victim is a grey box
            {P, "render"},
            [*network("substitute", name), *of_attack(*ON_S1), *S2],
        )
        for key, name in (("architectures", f"{NEW}-*"), ("dropout", "*-drop0.1"))
    ),
    (
        f"{P}.pretrain.victims.architectures",
        {P, "render"},
        [
            *network("victim", f"{NEW}-*"),
            *(f"adversarial_training/robust/{NEW}-*", f"evaluate_networks/robust/{NEW}-*"),
            *(f"filter/transfer/*/{NEW}/*", f"train/transfer/*/{NEW}/*", "render"),
        ],
    ),
    (f"{P}.pretrain.network.half_depth", {P}, []),  # of a network that is not here
    (f"{P}.pretrain.*", {P}, WITH_NETWORKS),
    (
        f"{P}.adversarial_training.*",
        {P},
        [
            "adversarial_training/*",
            "evaluate_networks/robust/*",
            "train/transfer/*/adversarial_training/*",
            "render",
        ],
    ),
    # attacks
    (f"{A}.feature_collision.dropout", {P}, of_attack("feature_collision")),  # the other one has none
    *(
        (f"{A}.{attack}.*", {P}, of_attack(*runs))
        for attack, runs in (
            ("feature_collision", ["feature_collision", "feature_collision_no_dropout"]),
            ("convex_polytope", ["convex_polytope", "convex_polytope_half"]),
            *(
                (name, [name])
                for name in (*LAYERS, "bullseye_polytope", "gradient_matching", "adaptive_polytope")
            ),
            *((name, [name]) for name in ("white_box_collision", "white_box_watermark")),
        )
    ),
    (
        f"{P}.craft.targets",  # an end-to-end study has a number of its own, and poisons of its own layers' attacks
        {P},
        [
            *(f"craft/{attack}/*" for attack in (*ON_S1, "convex_polytope_half", "white_box_*")),
            *("filter/*", "train/transfer/*", "train/overlap_*", "train/imbalance/*"),
            *("train/end_to_end/convex_polytope/*", "feature_plane/*", "render"),
        ],
    ),
    (
        f"{P}.craft.*",
        {P},
        [*BELOW, "feature_plane/*"],
    ),
    # defences
    (
        f"{P}.filter.random_eviction.feature_collision_fraction",
        {P},
        of_defence("random_eviction", attack="feature_collision"),
    ),
    (
        f"{P}.filter.random_eviction.fraction",
        {P},
        of_defence("random_eviction", attack="convex_polytope"),
    ),
    (  # the imbalance study has a k of its own
        f"{P}.filter.deep_knn.k",
        {P},
        [*of_defence("deep_knn", "transfer"), "feature_plane/*"],
    ),
    (f"{P}.filter.deep_knn.sweep", {P}, of_defence("deep_knn", "transfer")),
    (
        f"{P}.filter.deep_knn.include_self",
        {P},
        [*of_defence("deep_knn"), "feature_plane/*"],
    ),
    (f"{P}.filter.deep_knn.label_ties", {P}, [*of_defence("deep_knn"), "feature_plane/*"]),
    (f"{P}.filter.l2_outliers.*", {P}, of_defence("l2_outliers")),
    (f"{P}.filter.one_class_svm.*", {P}, of_defence("one_class_svm")),
    (f"{P}.filter.spectral_signatures.*", {P}, of_defence("spectral_signatures")),
    (f"{P}.filter.activation_clustering.*", {P}, of_defence("activation_clustering")),
    (f"{P}.filter.epic.*", {P}, of_defence("epic")),
    # fine-tuning: two recipes
    (
        f"{P}.train.transfer.*",
        {P},
        ["train/transfer/*", "train/overlap_*", "train/imbalance/*", "render"],
    ),
    (f"{P}.train.end_to_end.*", {P}, ["train/end_to_end/*", "render"]),
    *(
        (f"{P}.train.{defence}.*", {P}, [f"train/{setting}/*/{defence}/*", "render"])
        for defence, setting in (
            ("partition_aggregation", "transfer"),
            ("mixup", "end_to_end"),
            ("cutmix", "end_to_end"),
        )
    ),
    # who meets whom
    (
        f"{S}.transfer.feature_collision",
        {P, "render"},
        ["train/transfer/feature_collision/adversarial_training/*", "render"],
    ),
    *(
        (
            f"{S}.transfer.{attack}",
            {P, "render"},
            of_defence("l2_outliers", "transfer", attack),
        )
        for attack in ("convex_polytope", "bullseye_polytope", "gradient_matching", "adaptive_polytope")
    ),
    (
        f"{S}.dropout.attacks",
        {P, "render"},
        [*of_attack("convex_polytope"), "craft/convex_polytope_no_dropout/*"],
    ),
    (
        f"{S}.dropout.*",
        {P},
        of_attack("feature_collision", "feature_collision_no_dropout"),
    ),
    (f"{S}.left_out", {P, "render"}, ["render"]),  # one less
    (f"{S}.overlap.shared", {P, "render"}, ["render"]),  # one less
    (
        f"{S}.overlap.epochs",
        {P},
        [
            *(
                one
                for role in ("substitute_half", "victim_half", "victim_disjoint")
                for one in network(role, "*")
            ),
            *of_attack("convex_polytope_half"),
            *(f"train/overlap_{victims}/clean/*" for victims in ("half", "disjoint")),
        ],
    ),
    *(
        (
            f"{S}.overlap.substitutes.{key}",
            {P, "render"},
            [*network("substitute_half", name), *of_attack("convex_polytope_half")],
        )
        for key, name in (("architectures", f"{NEW}-*"), ("dropout", "*-drop0.1"))
    ),
    (
        f"{S}.overlap.victims",
        {P, "render"},
        [
            *network("victim_half", f"{OTHER}-*"),
            *network("victim_disjoint", f"{OTHER}-*"),
            *(f"train/overlap_*/{OTHER}/*", "render"),
        ],
    ),
    *(
        (
            f"{S}.end_to_end.substitutes.{key}",
            {P, "render"},
            [*network("substitute", name), *of_attack(*LAYERS), *S2],
        )
        for key, name in (("architectures", f"{NEW}-*"), ("dropout", "*-drop0.1"))
    ),
    *((f"{S}.end_to_end.{key}", {P, "render"}, ["render"]) for key in ("attacks", "defences")),  # one less
    (f"{S}.end_to_end.victims", {P, "render"}, [f"train/end_to_end/*/{OTHER}/*", "render"]),
    (f"{S}.end_to_end.targets", {P}, ["craft/multi_layer*", "train/end_to_end/*", "render"]),
    *(
        (
            f"{S}.imbalance.{key}",
            {P, "render"},
            [f"filter/imbalance/{runs}", f"train/imbalance/{runs}", "render"],
        )
        for key, runs in (("attacks", "feature_collision/*"), ("victims", f"*/{OTHER}/*"))
    ),
    (f"{S}.imbalance.*", {P}, ["filter/imbalance/*", "train/imbalance/*", "render"]),
    (f"{S}.white_box.attacks", {P, "render"}, ["render"]),  # one less
    (f"{S}.white_box.victim", {P, "render"}, of_attack("white_box_*")),
    (f"{S}.feature_plane.target", {P}, ["feature_plane/*", "render"]),
    (f"{S}.feature_plane.*", {P, "render"}, ["feature_plane/*", "render"]),
    (f"{P}.evaluate.hull.*", {P}, ["hull_proposition/*", "render"]),
    (f"{P}.evaluate.*", {P}, ["evaluate_networks/*", "render"]),
]

# Values that a leaf can be flipped to where the next number will not do.
FLIPS: dict[str, Callable[[Any], Any]] = {
    f"{P}.seeds": lambda seeds: [*seeds, 1],
    f"{P}.prepare.dataset": lambda name: {"digits": "cifar10", "cifar10": "digits"}[name],
    f"{P}.prepare.fine_tune_per_class": lambda n: n - 1,
    f"{P}.prepare.pretrain_per_class": lambda n: n - 1,
    f"{P}.*.target_dropout": lambda name: {"resampled": "fixed", "fixed": "off", "off": "resampled"}[name],
    f"{P}.filter.deep_knn.label_ties": lambda name: {"keep": "smallest", "smallest": "keep"}[name],
    f"{P}.*.dropout": lambda value: [0.1] if isinstance(value, list) else not value,
    f"{P}.*.schedule": lambda name: {"cosine": "step", "step": "cosine"}[name],
    f"{P}.*.batch_size": lambda n: n - 1,
    f"{P}.*.milestones": lambda epochs: epochs[:-1],
    f"{P}.craft.targets": lambda n: n - 1,
    f"{P}.*.parameters": lambda name: {"head": "all", "all": "head"}[name],
    f"{P}.filter.deep_knn.sweep": lambda ks: ks[:-1],
    f"{P}.pretrain.victims.architectures": lambda names: [*names, NEW],
    f"{P}.*.architectures": lambda names: [*names, NEW],
    f"{P}.pretrain.network.half_depth": lambda names: [NEW],
    f"{S}.left_out": lambda names: ["gradient_matching"],
    f"{S}.overlap.shared": lambda names: names[:-1],
    f"{S}.overlap.epochs": lambda n: 2,
    f"{S}.transfer.feature_collision": lambda names: [*names, "adversarial_training"],
    f"{S}.transfer.*": lambda names: [*names, "l2_outliers"],
    f"{S}.dropout.attacks": lambda names: [*names, "convex_polytope"],
    f"{S}.imbalance.attacks": lambda names: [*names, "feature_collision"],
    f"{S}.*.attacks": lambda names: names[:-1],
    f"{S}.end_to_end.defences": lambda names: names[:-1],
    f"{S}.feature_plane.attack": lambda name: "feature_collision",
    f"{S}.*.victims": lambda names: [*names, OTHER],
    f"{S}.*.victim": lambda name: OTHER,
    f"{S}.imbalance.class_sizes": lambda sizes: sizes[:-1],
    f"{P}.evaluate.pgd.eps": lambda values: values[:-1],
}

QUICK = {
    f"{P}.seeds",
    f"{P}.pretrain.substitutes.architectures",
    f"{P}.pretrain.training.epochs",
    f"{P}.adversarial_training.adversarial.steps",
    f"{P}.craft.targets",
    f"{A}.convex_polytope.eps",
    f"{P}.filter.deep_knn.k",
    f"{P}.train.transfer.lr",
    f"{P}.train.end_to_end.epochs",
    f"{S}.end_to_end.targets",
}
FIXED = {f"{S}.overlap.attack"}  # there is one value
