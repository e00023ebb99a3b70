"""train: fine-tune one victim on the poisoned, optionally filtered sets of all targets.

Settings: ``setting``; the recipe (epochs, batch_size, lr, weight_decay, milestones, train_mode; end_to_end: test_images; all others:
reset_head); attack, poison_class, target_class, poisons, targets; with an attack also eps and knowledge.

* transfer, and the settings that differ from it only in their inputs (overlap_*, imbalance): frozen features, all heads
  trained at once. With ``train_mode`` the batch statistics change during training, so each head needs its own network.
* end_to_end: all layers are trained, one network after another.

``defence`` names a defence that changes the training itself, with its arguments: partition_aggregation (transfer: a head for each of
``parts`` parts, and their vote) or a mixture of images and labels (end_to_end: ``alpha``).

Inputs: data, victim, poisons (unless attack is ``clean``), kept (if there is a filter), features (test features from the
same victim's clean run, so that they are not computed again). Outputs: trials.csv; a clean transfer run also writes
features.safetensors.

Control: in a transfer run, a victim is also trained on the same set with unperturbed bases, behind the same filter.
``control_success`` states whether it assigns the target to the poison class without an attack.

``train_accuracy_frac`` and ``poisons_fitted_frac`` are the shares of the training points, and of the poisons among them,
that the victim has fitted. A victim that has not fitted them is no evidence about the attack.

A poison outside the stated threat model is never scored: its attack counts as failed, and a note states the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from relearn.studies.poisoning.steps.trials import OnTrials

NEEDS_TORCH = True


@dataclass(frozen=True, kw_only=True)
class FineTuning(OnTrials):
    attack: str
    eps: float | None = None
    knowledge: str | None = None
    epochs: int
    batch_size: int
    lr: float
    weight_decay: float
    milestones: Sequence[int]
    train_mode: bool

    def recipe(self) -> dict[str, Any]:
        """The arguments that every fine-tuning takes."""
        return {
            "epochs": self.epochs,
            "lr": self.lr,
            "weight_decay": self.weight_decay,
            "milestones": tuple(self.milestones),
        }


@dataclass(frozen=True, kw_only=True)
class Heads(FineTuning):
    setting: Literal["transfer", "overlap_full", "overlap_half", "overlap_disjoint", "imbalance"]
    reset_head: bool


@dataclass(frozen=True, kw_only=True)
class Vote(Heads):
    defence: Literal["partition_aggregation"]
    parts: int


@dataclass(frozen=True, kw_only=True)
class EndToEnd(FineTuning):
    setting: Literal["end_to_end"]
    test_images: int


@dataclass(frozen=True, kw_only=True)
class Mixed(EndToEnd):
    defence: Literal["mixup", "cutmix"]
    alpha: float


Settings = Vote | Heads | Mixed | EndToEnd


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from relearn.studies.poisoning.steps import victim_networks, voting

    if isinstance(settings, EndToEnd):
        victim_networks.end_to_end(run, settings, inputs, device, precision)
    elif isinstance(settings, Vote):
        voting.heads_of_parts(run, settings, inputs, device, precision)
    elif settings.train_mode:
        victim_networks.heads_in_train_mode(run, settings, inputs, device, precision)
    else:
        _transfer(run, settings, inputs, device, precision)


def _transfer(run, settings: Heads, inputs, device, precision) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    from relearn.measures.attack_success import succeeded
    from relearn.measures.embed import embed
    from relearn.methods.transfer import fine_tune, fitted, poisoned_sets
    from relearn.models import files
    from relearn.runs.console import Progress
    from relearn.studies.poisoning.steps.victim_set import VictimSet, finish, kept_weights

    given = VictimSet(settings, inputs)
    data, trials, labels = given.data, given.trials, given.labels
    victim = files.load(inputs["victim"][0], device)
    clean = embed(victim, given.images, precision=precision)
    keep = control = torch.ones(len(labels), 1, 1)
    variants: list[dict[str, Any]] = [{"k": ""}]
    if "kept" in inputs:
        keep, control, variants = kept_weights(inputs["kept"][0])
    if given.poisons is None:
        sets = clean[None]  # one clean set serves all targets
    else:
        shape = given.poisons.shape[:2]
        features = embed(victim, given.poisons.flatten(0, 1), precision=precision).unflatten(0, shape)
        sets = poisoned_sets(clean, features, given.bases)
        keep = keep.expand(-1, len(sets), -1)
        twins = control.shape[
            1
        ]  # a random filter draws separately for each target and thus needs one filtered clean set per target
        sets = torch.cat([sets, clean.expand(twins, *clean.shape)])
        keep = torch.cat([keep, control], 1)
    sets, keep = sets.transpose(0, 1).contiguous(), keep.to(device)  # (n, S, d), (n, S, V)

    with Progress("train") as progress:
        heads, outcome, outcome_step = fine_tune(
            sets,
            labels.to(device),
            keep,
            victim.head,
            **settings.recipe(),
            batch_size=settings.batch_size,
            reset_head=settings.reset_head,
            seed=run.seed,
            log=run.log,
            progress=progress,
        )
    learned = fitted(heads, sets, labels.to(device))
    right = shares(learned, keep)
    poisons = shares(learned[given.bases], keep[given.bases])
    test_images, test_labels = data.test()
    if "features" in inputs:
        test = load_file(inputs["features"][0])["test"].to(device)
    else:
        test = embed(victim, test_images, precision=precision)
    if given.poisons is None:
        save_file({"test": test.cpu().contiguous()}, run.output("features.safetensors"))
    accuracy = _accuracies(heads, test, test_labels.to(device))
    target_features = embed(victim, trials.target_images, precision=precision)

    rows = []
    wanted = len(trials.target_index)
    keep = keep.cpu()
    for t, index in enumerate(trials.target_index):
        which = t if given.poisons is not None else 0
        twin = wanted + min(t, keep.shape[1] - wanted - 1)
        predicted = _predicted(heads, which, target_features[t])
        unperturbed = _predicted(heads, twin, target_features[t]) if given.poisons is not None else []
        for v, variant in enumerate(variants):
            success = succeeded(predicted[v], settings.poison_class) and t not in given.rejected
            row = {
                "target": int(index),
                **variant,
                "chosen": int(v == 0),
                "predicted": predicted[v],
                "success": int(success),
                "test_accuracy_frac": float(accuracy[which, v]),
                "train_accuracy_frac": right[which][v],
                "fine_tune_count": int(keep[:, which, v].sum()),
            }
            if given.poisons is not None:
                row |= {
                    "poisons_count": int((keep[given.bases, which, v] > 0).sum()),
                    "poisons_fitted_frac": poisons[which][v],
                    "control_predicted": unperturbed[v],
                    "control_success": int(succeeded(unperturbed[v], settings.poison_class)),
                }
            rows.append(row)
    finish(run, rows, given, outcome, outcome_step)


def shares(learned, keep) -> list[list[float | str]]:
    """Share of the kept points of each set and variant that is classified as labelled; "" if no point is kept.

    Args:
        learned: (n, S, V) bool.
        keep: (n, S, V), 0 for a dropped point; copies of a point count once.
    """
    kept = keep > 0
    counts, right = kept.sum(0), (learned & kept).sum(0)
    return [
        [float(r) / float(c) if c else "" for r, c in zip(rights, total)]
        for rights, total in zip(right.tolist(), counts.tolist(), strict=True)
    ]


def _predicted(heads, which: int, features) -> list[int]:
    """Class predicted by each variant of a set for one image's features (d,)."""
    weight, bias = heads.weight[which], heads.bias[which]  # (V, C, d), (V, C)
    return (weight @ features + bias).argmax(-1).tolist()


def _accuracies(heads, features, labels):
    """Test accuracy (T, V) of every head, computed in blocks of test images."""
    import torch

    sets, variants, classes, width = heads.weight.shape
    flat, bias = heads.weight.detach().reshape(-1, width), heads.bias.detach().reshape(-1)
    right = torch.zeros(sets * variants, device=features.device)
    for x, y in zip(features.split(1024), labels.split(1024), strict=True):
        logits = (x @ flat.T + bias).reshape(len(x), -1, classes)
        right += (logits.argmax(-1) == y[:, None]).float().sum(0)
    return (right / len(labels)).reshape(sets, variants).cpu()
