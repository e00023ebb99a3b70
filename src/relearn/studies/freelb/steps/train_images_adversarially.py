"""train_images_adversarially: train an image network with plain or adversarial gradients, and attack it.

This step is our addition. zhu2022, chapter 3, states that adversarial training reduces clean accuracy on images but not on texts; it
measures only texts.

Settings: network {name, width, depth} (of relearn.models); train {epochs, batch_size, lr, momentum, weight_decay, schedule (cosine, or
step at half and three quarters), crop_padding, flip}; method {kind (vanilla | pgd | free_at | freelb), passes, step_size, eps,
start_norm, project, norm (linf | l2)} in pixels of [0, 1] (see relearn.methods.gradient_strategies; vanilla has only its kind);
attack {eps, step_size, steps, restarts, images (evenly spaced test images; 0: all)}.
Input: data (written by prepare_images; all images of the training split are used).
Output: weights.safetensors (see relearn.models.files), history.csv (one row per epoch), answers.csv (sample, label, predicted, fooled;
fooled is empty where the image was not attacked).

The attack is relearn.methods.pgd in an l-infinity ball, whatever the norm in training. It shares no code and no starting points with
the training. The network is in eval mode, and the worst point of all restarts counts. During training the perturbations are computed
in training mode. With FreeAT each minibatch is repeated ``passes`` times with the same crops, and every pass is a step. The schedule
is then ``passes`` times as long, so all adversarial methods use the same number of passes and the same minibatches. Runs with the same
seed share the initial weights, the order of the images, their crops and the attack's starting points, whatever the method.

Metrics: acc_frac (all test images), robust_acc_frac (share of the attacked images classified correctly at all points that the
attack visits), attacked_acc_frac (clean accuracy on the attacked images), most_frequent_frac, robust_images_count, train_loss_nats
(mean over the last epoch, at the points used for training), passes_count (forward and backward passes of the training), steps_count,
skipped_count (perturbations that were not updated because their gradient was not finite), parameters_count, step_s (CPU time of a
step on a CPU, wall time on a GPU, of this process alone).
Outcome: ok, diverged, or not_converged: clean accuracy is not two standard errors above the share of the most frequent class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.runs.settings import picked
from relearn.steps.tasks import OnImages
from relearn.steps.trained.recipe import SgdEpochs
from relearn.studies.freelb.steps.adversaries import ImageMethod, passes_of, replays_of, strategy_of

if TYPE_CHECKING:
    from torch import Tensor

NEEDS_TORCH = True
HISTORY = ("epoch", "step", "loss", "lr", "test_accuracy_frac")
ANSWERS = ("sample", "label", "predicted", "fooled")
CHUNK = 250  # images attacked at once


@dataclass(frozen=True, kw_only=True)
class Training(SgdEpochs):
    batch_size: int
    crop_padding: int
    flip: bool


@dataclass(frozen=True, kw_only=True)
class Attack:
    eps: float
    step_size: float
    steps: int
    restarts: int
    images: int


@dataclass(frozen=True, kw_only=True)
class Settings:
    network: Mapping[str, Any]
    train: Training
    method: ImageMethod
    attack: Attack


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import torch

    from relearn.measures.accuracy import accuracy
    from relearn.measures.embed import embed
    from relearn.methods.batch_source import Resident
    from relearn.methods.free_at import Replayed
    from relearn.models import files
    from relearn.steps.csv_rows import write_history, write_rows
    from relearn.steps.tasks.images import Images
    from relearn.steps.trained.chance import above_chance, most_frequent
    from relearn.steps.trained.seed import seed_of
    from relearn.steps.trained.train import train

    recipe, method, attack = settings.train, settings.method, settings.attack
    gradient = strategy_of(method)
    task = Images(OnImages(crop_padding=recipe.crop_padding, flip=recipe.flip), inputs["data"][0], device)
    seed = seed_of({"step": "contrast"}, run.seed, "step")  # this string enters the seed
    torch.manual_seed(seed)  # the same initial weights after every restart and for every method
    net = task.create(settings.network)
    # The source draws the crops: they are the same for all methods, and a repeated minibatch keeps its crops.
    resident = Resident((task.images, task.labels), recipe.batch_size)
    source = Replayed(resident, replays_of(method), task.augment)

    def predict(model: Any) -> Tensor:
        with torch.no_grad():
            return model.head(embed(model, task.test_images, precision=precision)).float().cpu()

    def evaluate(model: Any) -> dict[str, float]:
        logits = predict(model)
        return {"test_accuracy_frac": accuracy(logits, task.test_labels)} if logits.isfinite().all() else {}

    ended = train(
        run,
        f"train_images_adversarially {' '.join(run.labels.values())}",
        net,
        source,
        recipe=recipe,
        evaluate=evaluate,
        judged_by="test_accuracy_frac",
        device=device,
        loss=task.loss,
        gradient=gradient,
        seed=seed,
        precision=precision,
    )
    fitted, clock = ended.fitted, ended.clock
    logits = predict(net)
    chance = most_frequent(task.test_labels)
    metrics = {
        "most_frequent_frac": chance,
        "passes_count": float(fitted.steps * passes_of(method)),
        "steps_count": float(fitted.steps),
        "skipped_count": float(getattr(gradient, "skipped_count", 0)),
        "parameters_count": float(sum(parameter.numel() for parameter in net.parameters())),
    }
    fooled: dict[int, bool] = {}
    if ended.outcome == "ok":
        metrics["acc_frac"] = accuracy(logits, task.test_labels)
        fooled = attacked(net, task, attack, seed, precision)
        metrics |= robustness(logits, task.test_labels, fooled)
        if not above_chance(metrics["acc_frac"], chance, len(task.test_labels)):
            ended.not_converged("accuracy not better than that of a constant answer")
    if fitted.history:
        metrics["train_loss_nats"] = fitted.history[-1]["loss"]
    metrics |= clock.per_step()
    files.save(net, run.output("weights.safetensors"), net.description)  # type: ignore[arg-type]
    write_history(run, HISTORY, fitted.history)
    write_rows(run.output("answers.csv"), ANSWERS, answers(logits, task.test_labels, fooled))
    run.finish(
        {key: value for key, value in metrics.items() if math.isfinite(value)},
        **ended.finish(),
        notes=[f"robust: l-infinity, eps {attack.eps:g}, {attack.images or 'all'} test images"],
    )


def attacked(net: Any, task: Any, attack: Attack, seed: int, precision: str) -> dict[int, bool]:
    """For each attacked test image, by its index, whether the attack fools the network."""
    import torch

    from relearn.data.evenly_spaced import evenly_spaced
    from relearn.methods.pgd import pgd

    places = evenly_spaced(torch.arange(len(task.test_labels)), attack.images)
    found = pgd(
        net,
        task.test_images[places],
        task.test_labels[places],
        **picked(attack, "eps", "step_size", "steps", "restarts"),
        seed=seed,
        batch=CHUNK,
        precision=precision,
    )
    return dict(zip(places.tolist(), found.fooled.tolist()))


def robustness(logits: Tensor, labels: Tensor, fooled: Mapping[int, bool]) -> dict[str, float]:
    """Clean and robust accuracy on the attacked images, and their number."""
    right = (logits.argmax(1) == labels).tolist()
    return {
        "robust_acc_frac": sum(not wrong for wrong in fooled.values()) / len(fooled),
        "attacked_acc_frac": sum(right[place] for place in fooled) / len(fooled),
        "robust_images_count": float(len(fooled)),
    }


def answers(logits: Tensor, labels: Tensor, fooled: Mapping[int, bool]) -> Iterator[list[Any]]:
    """Rows of answers.csv; the prediction is empty if an output is not finite."""
    sound = logits.isfinite().all(1).tolist()
    for place, (predicted, label) in enumerate(zip(logits.argmax(1).tolist(), labels.tolist())):
        lost = fooled.get(place)
        yield [place, label, predicted if sound[place] else None, None if lost is None else int(lost)]
