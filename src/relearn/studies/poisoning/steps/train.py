"""train: one victim, fine-tuned on the sets that an attack has poisoned and a defence has filtered, for all targets.

Settings: ``setting``; the recipe (epochs, batch_size, lr, weight_decay, milestones; transfer: reset_head; end_to_end:
test_images); attack, poison_class, target_class, poisons, targets; with an attack eps and knowledge.

* transfer and what differs from it in its inputs alone (overlap_*, imbalance): frozen features, all heads at once.
* end_to_end: all layers, one network after another.

Inputs: data, victim, poisons (unless attack is ``clean``), kept (unless there is no filter), features (of the same
victim's clean run: its test images need not be embedded again). Outputs: trials.csv; of a clean transfer run also
features.safetensors.

A poison outside the stated threat model is never scored: its attack counts as failed and the reason is a note.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

NEEDS_TORCH = True


def run(run, settings: dict, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    chosen = _end_to_end if settings["setting"] == "end_to_end" else _transfer
    chosen(run, settings, inputs, device, precision)


class _Set:
    """The fine-tuning set, its poisons and who of them is outside the threat model."""

    def __init__(self, settings: dict, inputs: dict[str, list[Path]]) -> None:
        from safetensors.torch import load_file

        from relearn.data.arrays import load_prepared
        from relearn.measures.attack_success import ThreatModel, rejections

        self.data = load_prepared(inputs["data"][0])
        names = ("target_class", "targets", "poison_class", "poisons")
        self.trials = self.data.trials(**{key: settings[key] for key in names})
        self.images, self.labels = self.data.fine_tune()
        self.poisons, self.threat, self.rejected = None, None, {}
        if "poisons" not in inputs:
            return
        crafted = load_file(inputs["poisons"][0])
        wanted = len(self.trials.target_index)
        self.poisons = crafted["poisons"][:wanted]  # a study may be content with the first targets
        if len(self.poisons) != wanted:
            raise ValueError(
                f"{inputs['poisons'][0]}: poisons of {len(self.poisons)} targets, needed: {wanted}"
            )
        self.threat = ThreatModel(
            knowledge=settings["knowledge"],
            eps=settings["eps"],
            poisons_count=settings["poisons"],
            class_count=int(self.labels.bincount().max()),
            fine_tune_count=len(self.labels),
            setting="end_to_end" if settings["setting"] == "end_to_end" else "transfer",
        )
        bases = crafted.get("centres", self.trials.base_images.expand_as(self.poisons))[:wanted]
        self.rejected = rejections(self.poisons, bases, self.threat)
        for t in crafted["rejected"][:wanted].nonzero().flatten().tolist() if "rejected" in crafted else ():
            self.rejected.setdefault(t, "not finite when crafted")

    def notes(self) -> list[str]:
        numbers = self.trials.target_index.tolist()
        return [f"target {numbers[t]} rejected, counted as failed: {why}" for t, why in self.rejected.items()]


def _transfer(run, settings, inputs, device, precision) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    from relearn.measures.attack_success import succeeded
    from relearn.measures.embed import embed
    from relearn.methods.transfer import fine_tune, poisoned_sets
    from relearn.models import files
    from relearn.runs.console import Progress

    given = _Set(settings, inputs)
    data, trials, labels = given.data, given.trials, given.labels
    victim = files.load(inputs["victim"][0], device)
    clean = embed(victim, given.images, precision=precision)
    if given.poisons is None:
        sets = clean[None]  # one clean set serves all targets
    else:
        shape = given.poisons.shape[:2]
        features = embed(victim, given.poisons.flatten(0, 1), precision=precision).unflatten(0, shape)
        sets = poisoned_sets(clean, features, trials.base_positions_in_fine_tune)
    keep = torch.ones(len(labels), len(sets), 1)
    variants: list[dict[str, Any]] = [{"k": ""}]
    if "kept" in inputs:
        keep, variants = _variants(load_file(inputs["kept"][0]))

    with Progress("train") as progress:
        heads, outcome, outcome_step = fine_tune(
            sets.transpose(0, 1).contiguous(),
            labels.to(device),
            keep.to(device),
            victim.head,
            **{key: settings[key] for key in ("epochs", "batch_size", "lr", "weight_decay", "reset_head")},
            milestones=tuple(settings["milestones"]),
            seed=run.seed,
            log=run.log,
            progress=progress,
        )
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
    base_rows = trials.base_positions_in_fine_tune
    for t, index in enumerate(trials.target_index):
        which = t if len(sets) > 1 else 0
        weight, bias = heads.weight[which], heads.bias[which]  # (V, C, d), (V, C)
        predicted = (weight @ target_features[t] + bias).argmax(-1).tolist()
        for v, variant in enumerate(variants):
            success = succeeded(predicted[v], settings["poison_class"]) and t not in given.rejected
            rows.append(
                {
                    "target": int(index),
                    **variant,
                    "chosen": int(v == 0),
                    "predicted": predicted[v],
                    "success": int(success),
                    "test_accuracy_frac": float(accuracy[which, v]),
                    "fine_tune_count": int(keep[:, which, v].sum()),
                    "poisons_count": 0
                    if given.poisons is None
                    else int((keep[base_rows, which, v] > 0).sum()),
                }
            )
    _finish(run, rows, given, outcome, outcome_step)


def _variants(kept) -> tuple[Any, list[dict[str, Any]]]:
    """Weights (n, T, V) and what each variant is, from a filter's file: bool ``keep``, or counts of copies."""
    keep = kept["keep"].permute(2, 1, 0).float()
    variants = [{"k": int(k) or ""} for k in kept["k"]]
    if "class_size" in kept:
        largest = int(kept["class_size"].max())
        for variant, size, copies in zip(
            variants, kept["class_size"].tolist(), kept["replicated"].tolist(), strict=True
        ):
            variant |= {"class_size": size, "class_size_frac": size / largest, "replicated": int(copies)}
    return keep, variants


def _end_to_end(run, settings, inputs, device, precision) -> None:
    from relearn.measures.attack_success import succeeded
    from relearn.methods.end_to_end import fine_tune_network, predictions
    from relearn.models import files
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress

    given = _Set(settings, inputs)
    trials, labels = given.trials, given.labels.to(device)
    victim = files.load(inputs["victim"][0], device)
    test_images, test_labels = (part[: settings["test_images"]] for part in given.data.test())
    names = ("epochs", "batch_size", "lr", "weight_decay", "milestones")
    recipe = {key: settings[key] for key in names}
    sets = 1 if given.poisons is None else len(given.poisons)  # one clean network serves all targets
    checkpoint = Checkpoint(run.work / "trained")
    state = checkpoint.load() or {"rows": [], "done": 0, "outcome": "ok", "outcome_step": None}
    with Progress("train end to end") as progress:
        for t in range(state["done"], sets):

            def told(done: int, steps: int, before: int = t) -> None:
                progress(before * steps + done, sets * steps)

            images = given.images.clone()
            if given.poisons is not None:
                images[trials.base_positions_in_fine_tune] = given.poisons[t]
            tuned, fitted = fine_tune_network(
                victim,
                images.to(device),
                labels,
                **recipe,
                seed=run.seed,
                precision=precision,
                progress=told,
            )
            if fitted.outcome != "ok" and state["outcome"] == "ok":
                state["outcome"], state["outcome_step"] = fitted.outcome, fitted.outcome_step
            right = float((predictions(tuned, test_images) == test_labels).float().mean())
            attacked = [t] if given.poisons is not None else range(len(trials.target_index))
            predicted = predictions(tuned, trials.target_images[list(attacked)]).tolist()
            for one, found in zip(attacked, predicted, strict=True):
                success = succeeded(found, settings["poison_class"]) and one not in given.rejected
                state["rows"].append(
                    {
                        "target": int(trials.target_index[one]),
                        "k": "",
                        "chosen": 1,
                        "predicted": found,
                        "success": int(success and fitted.outcome == "ok"),
                        "test_accuracy_frac": right,
                        "train_loss_nats": fitted.history[-1]["loss"] if fitted.history else None,
                        "fine_tune_count": len(labels),
                        "poisons_count": 0 if given.poisons is None else settings["poisons"],
                    }
                )
            state["done"] = t + 1
            checkpoint.save(state)  # nothing trained is lost
    _finish(run, state["rows"], given, state["outcome"], state["outcome_step"])


def _finish(run, rows: list[dict[str, Any]], given: _Set, outcome: str, outcome_step: int | None) -> None:
    chosen = [row for row in rows if row["chosen"]]
    run.finish(
        {
            "attack_success_frac": sum(row["success"] for row in chosen) / len(chosen),
            "test_accuracy_frac": sum(row["test_accuracy_frac"] for row in chosen) / len(chosen),
            "targets_count": len(chosen),
            "rejected_count": len(given.rejected),
        },
        trials=(list(rows[0]), [list(row.values()) for row in rows]),
        outcome=outcome,
        outcome_step=outcome_step,
        outcome_reason="loss not finite" if outcome == "diverged" else None,
        threat_model=given.threat.to_dict() if given.threat else None,
        notes=given.notes(),
    )


def _accuracies(heads, features, labels):
    """Test accuracy (T, V) of every head, a block of test images at a time."""
    import torch

    sets, variants, classes, width = heads.weight.shape
    flat, bias = heads.weight.detach().reshape(-1, width), heads.bias.detach().reshape(-1)
    right = torch.zeros(sets * variants, device=features.device)
    for x, y in zip(features.split(1024), labels.split(1024), strict=True):
        logits = (x @ flat.T + bias).reshape(len(x), -1, classes)
        right += (logits.argmax(-1) == y[:, None]).float().sum(0)
    return (right / len(labels)).reshape(sets, variants).cpu()
