"""Victims that each need their own network: trained end to end, or in the head only with changing batch statistics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relearn.studies.poisoning.steps.train import EndToEnd, Heads


def end_to_end(run, settings: EndToEnd, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    """Train all layers, on mixed batches if the defence is a mixture; the control is the clean run of the same victim."""
    from relearn.measures.attack_success import succeeded
    from relearn.methods import MIXTURES, load
    from relearn.methods.end_to_end import fine_tune_network, predictions
    from relearn.models import files
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress
    from relearn.studies.poisoning.steps.train import Mixed
    from relearn.studies.poisoning.steps.victim_set import VictimSet, finish

    given = VictimSet(settings, inputs)
    trials, labels = given.trials, given.labels.to(device)
    victim = files.load(inputs["victim"][0], device)
    test_images, test_labels = (part[: settings.test_images] for part in given.data.test())
    mix = None
    if isinstance(settings, Mixed):
        mix = load(MIXTURES, settings.defence)(settings.alpha, classes=victim.head.out_features)
    sets = 1 if given.poisons is None else len(given.poisons)  # one clean network serves all targets
    checkpoint = Checkpoint(run.work / "trained")
    state = checkpoint.load() or {"rows": [], "done": 0, "outcome": "ok", "outcome_step": None}
    with Progress("train end to end") as progress:
        for t in range(state["done"], sets):

            def report(done: int, steps: int, before: int = t) -> None:
                progress(before * steps + done, sets * steps)

            images = given.poisoned(t)
            tuned, fitted = fine_tune_network(
                victim,
                images.to(device),
                labels,
                **settings.recipe(),
                batch_size=settings.batch_size,
                training_mode=settings.train_mode,
                mix=mix,
                seed=run.seed,
                precision=precision,
                progress=report,
            )
            _note_divergence(state, fitted)
            learned = predictions(tuned, images) == given.labels
            right = float((predictions(tuned, test_images) == test_labels).float().mean())
            attacked = [t] if given.poisons is not None else range(len(trials.target_index))
            predicted = predictions(tuned, trials.target_images[list(attacked)]).tolist()
            for one, found in zip(attacked, predicted, strict=True):
                success = succeeded(found, settings.poison_class) and one not in given.rejected
                row = {
                    "target": int(trials.target_index[one]),
                    "k": "",
                    "chosen": 1,
                    "predicted": found,
                    "success": int(success and fitted.outcome == "ok"),
                    "test_accuracy_frac": right,
                    "train_accuracy_frac": float(learned.float().mean()),
                    "train_loss_nats": fitted.history[-1]["loss"] if fitted.history else None,
                    "fine_tune_count": len(labels),
                }
                if given.poisons is not None:
                    row |= {
                        "poisons_count": settings.poisons,
                        "poisons_fitted_frac": float(learned[given.bases].float().mean()),
                    }
                state["rows"].append(row)
            state["done"] = t + 1
            checkpoint.save(state)  # after every network
    finish(run, state["rows"], given, state["outcome"], state["outcome_step"])


def heads_in_train_mode(
    run, settings: Heads, inputs: dict[str, list[Path]], device: str, precision: str
) -> None:
    """Train only the linear head with the network in training mode, as the defence's public code does.

    Each batch is then normalised by its own statistics and the running statistics change, so features cannot be shared: every
    set and variant gets its own copy of the network, and so does its clean control.
    """
    from safetensors.torch import save_file

    from relearn.measures.attack_success import succeeded
    from relearn.measures.embed import embed
    from relearn.methods.end_to_end import fine_tune_network, predictions
    from relearn.models import files
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress
    from relearn.studies.poisoning.steps.victim_set import VictimSet, finish, kept_weights

    given = VictimSet(settings, inputs)
    trials, labels = given.trials, given.labels
    victim = files.load(inputs["victim"][0], device)
    test_images, test_labels = given.data.test()
    if given.poisons is None:
        test = embed(victim, test_images, precision=precision)
        save_file({"test": test.cpu().contiguous()}, run.output("features.safetensors"))
    keep, control, variants = None, None, [{"k": ""}]
    if "kept" in inputs:
        keep, control, variants = kept_weights(inputs["kept"][0])
    checkpoint = Checkpoint(run.work / "trained")
    state = checkpoint.load() or {"rows": [], "done": 0, "twins": {}, "outcome": "ok", "outcome_step": None}

    def trained(images, weights, progress) -> tuple[Any, Any]:
        """A network with its head trained on the kept points, and the mask of these points."""
        kept = labels.new_ones(len(labels)) if weights is None else weights.long()
        rows = kept.nonzero().flatten().repeat_interleave(kept[kept > 0])
        tuned, fitted = fine_tune_network(
            victim,
            images[rows].to(device),
            labels[rows].to(device),
            **settings.recipe(),
            batch_size=settings.batch_size,
            head_only=True,
            reset_head=settings.reset_head,
            training_mode=True,
            seed=run.seed,
            precision=precision,
            progress=progress,
        )
        _note_divergence(state, fitted)
        return tuned, kept > 0

    count = len(trials.target_index) * len(variants)
    one_set = given.poisons is None and (keep is None or keep.shape[1] == 1)
    clean_set: dict[int, Any] = {}  # by variant, if all targets see the same set
    with Progress("train heads") as progress:
        for done in range(state["done"], count):

            def report(step: int, steps: int, before: int = done) -> None:
                progress(before * steps + step, count * steps)

            t, v = done // len(variants), done % len(variants)
            weights = None if keep is None else keep[:, min(t, keep.shape[1] - 1), v]
            tuned, kept = clean_set.get(v) or trained(given.poisoned(t), weights, report)
            if one_set:
                clean_set[v] = tuned, kept
            learned = predictions(tuned, given.poisoned(t)) == labels
            found = int(predictions(tuned, trials.target_images[t : t + 1]))
            success = succeeded(found, settings.poison_class) and t not in given.rejected
            row = {
                "target": int(trials.target_index[t]),
                **variants[v],
                "chosen": int(v == 0),
                "predicted": found,
                "success": int(success),
                "test_accuracy_frac": float((predictions(tuned, test_images) == test_labels).float().mean()),
                "train_accuracy_frac": float(learned[kept].float().mean()),
                "fine_tune_count": int(kept.sum() if weights is None else weights.sum()),
            }
            if given.poisons is not None:
                stay = kept[given.bases]
                row |= {
                    "poisons_count": int(stay.sum()),
                    "poisons_fitted_frac": float(learned[given.bases][stay].float().mean())
                    if stay.any()
                    else "",
                }
                twin = 0 if control is None else min(t, control.shape[1] - 1)
                name = f"{twin}.{v}"
                if name not in state["twins"]:
                    clean, _ = trained(given.images, None if control is None else control[:, twin, v], None)
                    state["twins"][name] = predictions(clean, trials.target_images).tolist()
                alone = state["twins"][name][t]
                row |= {
                    "control_predicted": alone,
                    "control_success": int(succeeded(alone, settings.poison_class)),
                }
            state["rows"].append(row)
            state["done"] = done + 1
            checkpoint.save(state)
    finish(run, state["rows"], given, state["outcome"], state["outcome_step"])


def _note_divergence(state: dict[str, Any], fitted: Any) -> None:
    """Record the first divergence."""
    if fitted.outcome != "ok" and state["outcome"] == "ok":
        state["outcome"], state["outcome_step"] = fitted.outcome, fitted.outcome_step
