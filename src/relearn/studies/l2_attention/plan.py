"""The runs of the study: character models, lower bounds of Lipschitz constants, inversions, cases of the theorems, and step times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from relearn.data import TEXTS, module_of
from relearn.studies.family import Family, Needs
from relearn.studies.l2_attention.recipes import WARMUP, recipes_of, trained_name

STUDY = "l2_attention"
Planned = Callable[..., Family]
KINDS = {"attention": "lstm|dp|dp_l2_start|l2|l2_tied|l2_matched|contractive"}
CONTROLS = {"dp_l2_start": {"attention": "dp", "small_start": True}}
"""Kinds that are another one with a different start."""
LOOKED_AT = ("dp", "l2_tied")
"""Kinds of attention whose layers figures 5, 8 and 10 show: those of the one-layer models of the first recipe."""
NORMS = {"fig2": "inf", "fig7": "two", "fig8": "inf"}
SIZES = {
    "theorem_3_1": ("lengths", "dims", "heads", "spreads"),
    "lemma_f_1": ("lengths", "dims", "spreads"),
    "masks": ("lengths", "dims", "heads", "spreads"),
    "dropout": ("keep", "dims", "lengths"),
}
"""Protocol to the settings that it takes."""
TIMED = ("dp", "l2", "l2_tied", "contractive")
MODEL = {"weights": "weights.safetensors", "history": "history.csv"}
TRAINING = Needs(mem_mb=8000, minutes=1440)
DEEP = {**KINDS, "layers": r"\d+"}


def plan(params: Mapping[str, Any], scale: str) -> dict[str, Family]:
    """The families of runs by step."""
    planned = partial(Family, study=STUDY, scale=scale)
    own = params[STUDY]
    lines = _lines(planned, own)
    tuning = _tuning(planned, own, lines)
    models = _models(planned, own, lines, tuning)
    trained = [kind for kind in LOOKED_AT if own["depths"]["warmup"][kind]]
    shown = _shown(planned, own, models, trained)
    return {
        "prepare_ptb_lines": lines,
        "tune_char_lm": tuning,
        "train_char_lm": models,
        "show_char_lm": shown,
        "lipschitz_lower_bound": _ascents(planned, own, models, shown, trained),
        "invert_residual": _inversions(planned, own, models, shown, trained),
        "check_theorems": _theorems(planned, own),
        "attention_outputs": _outputs(planned, own, models, shown, trained),
        "time_training_step": _times(planned, own, lines),
    }


def _lines(planned: Planned, own: Mapping[str, Any]) -> Family:
    dataset = own["characters"]["dataset"]
    return planned(
        step="prepare_ptb_lines",
        folder=dataset,
        cells=[{}],
        labels={"dataset": dataset},
        settings=own["characters"],
        modules=[module_of(dataset, TEXTS, "text")],
        outputs={"characters": "characters.safetensors"},
        needs=Needs(mem_mb=4000, minutes=60, gpu=0),
    )


def _tuning(planned: Planned, own: Mapping[str, Any], lines: Family) -> Family:
    """Training with the first seed and every recipe of each group that has several; no runs for groups with one recipe."""
    named = {name: recipe for group in recipes_of(own).values() for name, recipe in group.items()}
    return planned(
        step="train_char_lm",
        folder="tuning/{attention}/{layers}/{tried}",
        cells=[
            {"attention": attention, "layers": str(layers), "tried": name}
            for group, recipes in recipes_of(own).items()
            if len(recipes) > 1
            for attention, depths in own["depths"][group].items()
            for layers in depths
            for name in recipes
        ],
        seeds=own["seeds"][:1],
        labels={"recipe": "tuning"},
        inputs={"characters": lines.path("characters")},
        settings=lambda attention, layers, tried: {**_model(own, attention, layers), **named[tried]},
        outputs=MODEL,
        needs=TRAINING,
        constraints=DEEP,
    )


def _models(planned: Planned, own: Mapping[str, Any], lines: Family, tuning: Family) -> Family:
    groups = {trained_name(group, recipes): (group, recipes) for group, recipes in recipes_of(own).items()}

    def tried(attention: str, layers: str, recipe: str, seed: str) -> list[str]:
        """The tuning records from which a run chooses its recipe; they are the same for every seed."""
        _, recipes = groups[recipe]
        if len(recipes) == 1:
            return []
        first = own["seeds"][0]
        return [tuning.path(attention=attention, layers=layers, tried=name, seed=first) for name in recipes]

    def settings(attention: str, layers: str, recipe: str) -> dict[str, Any]:
        recipes = list(groups[recipe][1].values())
        return {**_model(own, attention, layers), **(recipes[0] if len(recipes) == 1 else {})}

    return planned(
        step="train_char_lm",
        folder="{attention}/{layers}/{recipe}",
        cells=[
            {"attention": attention, "layers": str(layers), "recipe": name}
            for name, (group, _) in groups.items()
            for attention, depths in own["depths"][group].items()
            for layers in depths
        ],
        seeds=own["seeds"],
        inputs={"characters": lines.path("characters"), "tuning": tried},
        settings=settings,
        outputs=MODEL,
        needs=TRAINING,
        constraints=DEEP,
    )


def _shown(planned: Planned, own: Mapping[str, Any], models: Family, trained: Sequence[str]) -> Family:
    """One-layer models of the width `shown_dim`, trained as the others are; no runs if that is the width of `network`."""
    dim = _shown_dim(own)
    sizes = {"dim": dim, "ffn": own["network"]["ffn"] * dim // own["network"]["dim"]}
    recipe = trained_name(WARMUP, recipes_of(own)[WARMUP])

    def as_models(given: Callable[..., Any]) -> Callable[..., Any]:
        return lambda attention, **seed: given(attention=attention, layers="1", recipe=recipe, **seed)

    return planned(
        step="train_char_lm",
        folder="shown/{attention}",
        cells=[] if dim == own["network"]["dim"] else [{"attention": kind} for kind in trained],
        seeds=own["seeds"][:1],
        labels={"layers": "1", "recipe": "shown"},
        inputs={
            name: as_models(given) if callable(given) else given for name, given in models.inputs.items()
        },
        settings=lambda attention: {**as_models(models.settings_of)(attention), **sizes},
        outputs=MODEL,
        needs=TRAINING,
        constraints=KINDS,
    )


def _shown_dim(own: Mapping[str, Any]) -> int:
    return int(own["shown_dim"] or own["network"]["dim"])


def _model(own: Mapping[str, Any], attention: str, layers: str) -> dict[str, Any]:
    """Settings of a model and its training, without those of the recipe."""
    return {
        **CONTROLS.get(attention, {"attention": attention}),
        "layers": int(layers),
        **{key: own["network"][key] for key in ("dim", "heads", "ffn", "norm", "init_scale", "glorot")},
        "max_length": own["characters"]["max_length"],
        **own["train"],
        "clip_norm": None,
    }


def _ascents(
    planned: Planned, own: Mapping[str, Any], models: Family, shown: Family, trained: Sequence[str]
) -> Family:
    """Ascents for figures 2 and 7 (against the length) and figure 8 (against the steps), each with the norm of its figure."""
    figures = {"fig2": own["figure_2"], "fig7": own["figure_7"], "fig8": own["figure_8"]}
    keys = ("starts", "row_steps", "steps", "lr", "spread", "top")

    def settings(suite: str, attention: str, weights: str, length: str) -> dict[str, Any]:
        figure = figures[suite]
        size = {"dim": 1, "heads": 1} if suite != "fig8" else _size(own, weights, figure)
        return {
            "attention": attention,
            "weights": weights,
            "p": NORMS[suite],
            "length": int(length),
            **size,
            **{key: figure[key] for key in keys if key in figure},
        }

    along_length = [
        {"suite": suite, "attention": "l2_tied", "weights": "identity", "length": str(length)}
        for suite in ("fig2", "fig7")
        for length in figures[suite]["lengths"]
    ]
    growth = [
        {"suite": "fig8", "attention": kind, "weights": weights, "length": str(figures["fig8"]["length"])}
        for kind, weights in _looked_at(trained)
    ]
    return planned(
        step="lipschitz_lower_bound",
        folder="{suite}/{attention}/{weights}/{length}",
        cells=[*along_length, *growth],
        seeds=own["seeds"][:1],
        labels={"p": lambda suite, **_: NORMS[suite]},
        inputs={"network": _network(own, models, shown)},
        settings=settings,
        outputs={"ascents": "ascents.csv", "curve": "curve.csv"},
        needs=Needs(mem_mb=8000, minutes=240),
        constraints={**KINDS, "suite": "fig[278]", "length": r"\d+"},
    )


def _inversions(
    planned: Planned, own: Mapping[str, Any], models: Family, shown: Family, trained: Sequence[str]
) -> Family:
    inversion = own["inversion"]
    drawn = [kind for kind in inversion["attentions"] if kind != "contractive"]  # figure 3 shows it
    grid: list[tuple[str, Sequence[str], str, Sequence[int], Sequence[int]]] = [
        ("fig3", inversion["attentions"], "random", [inversion["length"]], [inversion["dim"]]),
        ("fig5", trained, "trained", [inversion["length"]], [_shown_dim(own)]),
        ("fig6", drawn, "random", inversion["lengths"], inversion["dims"]),
    ]

    def settings(suite: str, attention: str, weights: str, length: str, dim: str) -> dict[str, Any]:
        return {
            "attention": attention,
            "weights": weights,
            "length": int(length),
            "dim": int(dim),
            "heads": own["network"]["heads"] if weights == "trained" else inversion["heads"],
            **{key: inversion[key] for key in ("batch", "c", "iterations")},
        }

    return planned(
        step="invert_residual",
        folder="{suite}/{attention}/{weights}/{length}x{dim}",
        cells=[
            {"suite": suite, "attention": kind, "weights": weights, "length": str(length), "dim": str(dim)}
            for suite, kinds, weights, lengths, dims in grid
            for kind in kinds
            for length in lengths
            for dim in dims
        ],
        seeds=own["seeds"][:1],
        inputs={"network": _network(own, models, shown)},
        settings=settings,
        outputs={"errors": "errors.csv", "ranges": "ranges.csv"},
        needs=Needs(mem_mb=8000, minutes=120),
        constraints={**KINDS, "suite": "fig[356]", "length": r"\d+", "dim": r"\d+"},
    )


def _theorems(planned: Planned, own: Mapping[str, Any]) -> Family:
    return planned(
        step="check_theorems",
        folder="{protocol}",
        cells=[{"protocol": name} for name in SIZES],
        seeds=own["seeds"][:1],
        settings=lambda protocol: {
            "protocol": protocol,
            **{key: own["examine"][key] for key in SIZES[protocol]},
        },
        outputs={"cases": "cases.csv"},
        needs=Needs(mem_mb=4000, minutes=60, gpu=0),
    )


def _outputs(
    planned: Planned, own: Mapping[str, Any], models: Family, shown: Family, trained: Sequence[str]
) -> Family:
    inversion = own["inversion"]
    return planned(
        step="attention_outputs",
        folder="{attention}/{weights}",
        cells=[{"attention": kind, "weights": weights} for kind, weights in _looked_at(trained)],
        seeds=own["seeds"][:1],
        inputs={"network": _network(own, models, shown)},
        settings=lambda attention, weights: {
            "attention": attention,
            "weights": weights,
            "length": inversion["length"],
            "batch": inversion["batch"],
            "bins": own["examine"]["bins"],
            **_size(own, weights, inversion),
        },
        outputs={"histogram": "histogram.csv"},
        needs=Needs(mem_mb=4000, minutes=60, gpu=0),
        constraints=KINDS,
    )


def _times(planned: Planned, own: Mapping[str, Any], lines: Family) -> Family:
    keys = ("layers", "pairs", "dim", "heads", "ffn", "batch_size")
    return planned(
        step="time_training_step",
        folder="{attention}",
        cells=[{"attention": kind} for kind in TIMED],
        seeds=own["seeds"][:1],
        inputs={"characters": lines.path("characters")},
        settings=lambda attention: {
            "attention": attention,
            "max_length": own["characters"]["max_length"],
            **{key: own["clock"][key] for key in keys},
        },
        outputs={"times": "times.csv"},
        needs=Needs(mem_mb=8000, minutes=240),
        constraints=KINDS,
    )


def _looked_at(trained: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of attention and weights: random weights for each kind, and trained weights if there is a model."""
    both = {kind: ["random", "trained"] if kind in trained else ["random"] for kind in LOOKED_AT}
    return [(kind, weights) for kind, named in both.items() for weights in named]


def _size(own: Mapping[str, Any], weights: str, section: Mapping[str, Any]) -> dict[str, Any]:
    """Width and heads: those of the language model if its weights are used, otherwise those of the section."""
    if weights == "trained":
        return {"dim": _shown_dim(own), "heads": own["network"]["heads"]}
    return {"dim": section["dim"], "heads": section["heads"]}


def _network(own: Mapping[str, Any], models: Family, shown: Family) -> Any:
    """A function that returns the file of the trained model whose first layer a run uses; no file if the weights are not trained."""
    recipe = trained_name(WARMUP, recipes_of(own)[WARMUP])

    def path(attention: str, weights: str, seed: str, **_: str) -> list[str]:
        if weights != "trained":
            return []
        if shown.cells:
            return [shown.path("weights", attention=attention, seed=seed)]
        return [models.path("weights", attention=attention, layers=1, recipe=recipe, seed=seed)]

    return path
