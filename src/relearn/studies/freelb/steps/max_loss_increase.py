r"""max_loss_increase: measure the maximal increase of the loss near a text for several networks.

Source: zhu2022, section 3.5.3, table 3.5. The networks are trained with different methods.

.. math:: \Delta L_{\max}(X, \epsilon) = \max_{\|\delta\|_F \le \epsilon} L(f(X + \delta), y) - L(f(X), y) \qquad (3.5)

X are a sample's word embeddings.

Settings: task (see relearn.data.text_tasks; classification or ranking), samples (of its dev part, evenly spaced; 0: all); max_length
(tokens, as in fine-tuning); references (names of the inputs whose networks determine the radii: each sample is attacked within the
largest tried radius at which the reference stays correct); eps_frac (first radius as a share of ‖X‖_F in the reference), shrink (share
of the first radius by which the radius shrinks as long as an attack on the reference succeeds); steps, step_size (in the unit of the
embeddings) and starts (the first at X, the others random) of every attack; batch_size (samples, or questions of a ranking task).
Inputs: the networks to compare, one model.safetensors of ``relearn freelb finetune`` each, by name: vanilla, pgd, freelb.
Output: increases.csv (id, reference, model, eps, increase_nats, loss_nats): the samples that all networks answer correctly; eps is 0
and increase_nats empty if no radius was found.

A radius found on the reference is used for all networks. It favours the reference, so there is more than one reference. Everything is
computed in single precision, even if the run uses bf16, because the increases are far below the last digit of a bf16 logit. Random
starts depend on the seed and the sample's index, so the batch size does not matter.

Metrics: increase_<model>_<reference>_nats, median over the samples with a radius; loss_<model>_nats, median over the samples that all
networks answer correctly; samples_count, the number of these samples; dropped_count, the number of other samples of the part;
equal_loss_<model>_<other>_<reference>_nats, for each two networks: the median of the second one's increase minus the first one's, over
the samples whose larger loss is at most ALIKE times the smaller (a sample with a smaller loss has less to increase), and
equal_loss_<model>_<other>_<reference>_count, the number of these samples;
unheld_<reference>_count, how many of the samples_count samples have no radius; eps_<reference>_frac, median radius as a share of ‖X‖_F;
nonfinite_count, the number of evaluations in all attacks whose loss was not finite.
Outcome: ok; not_converged: there is no sample that all networks answer correctly, or none with a radius. Then there are no increases.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.runs.settings import plain

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.data.examples import Examples
    from relearn.studies.freelb.steps.compared_networks import Network, Samples

NEEDS_TORCH = True
ALIKE = 1.25
"""Two networks have about the same loss on a sample if the larger one is at most this multiple of the smaller."""
INCREASES = ("id", "reference", "model", "eps", "increase_nats", "loss_nats")


@dataclass(frozen=True, kw_only=True)
class Settings:
    task: str
    samples: int
    max_length: int
    references: Sequence[str]
    eps_frac: float
    shrink: float
    steps: int
    step_size: float
    starts: int
    batch_size: int


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import contextlib

    from relearn.maths.eval_mode import frozen
    from relearn.steps.csv_rows import write_rows
    from relearn.studies.freelb.steps.compared_networks import Network

    check(settings, inputs)
    part, source = read(settings.task, settings.samples)
    sizes: Any = {"batch_size": settings.batch_size, "longest": settings.max_length}
    networks = {name: Network(name, paths[0], part, **sizes, device=device) for name, paths in inputs.items()}
    with contextlib.ExitStack() as stack:
        for network in networks.values():
            stack.enter_context(frozen(network.net))
        found = Probe(run, settings, networks)
        found.clean()
        for reference in settings.references:
            found.attack_all(reference)
    write_rows(run.output("increases.csv"), INCREASES, found.rows())
    outcome: dict[str, Any] = {}
    if not found.kept:
        outcome = {"outcome_reason": f"no sample that all of {', '.join(networks)} answer correctly"}
    elif not any(one["held"] for one in found.radii.values()):
        outcome = {"outcome_reason": "no radius within which a reference stays correct"}
    run.finish(
        found.metrics(),
        **({"outcome": "not_converged", **outcome} if outcome else {}),
        notes=[
            f"{settings.task}, {len(part)} samples of its dev part",
            "source: " + json.dumps(source, sort_keys=True),
        ],
    )


def check(settings: Settings, inputs: Mapping[str, list[Path]]) -> None:
    """Check the settings before any data is read.

    Raises:
        ValueError: a number is out of range, there is no network, or a reference is not among the networks.
    """
    own = plain(settings)
    least = {"samples": 0, "max_length": 1, "steps": 0, "starts": 1, "batch_size": 1}
    for key, bound in least.items():
        if own[key] < bound:
            raise ValueError(f"{key}: {own[key]} (allowed: at least {bound})")
    for key in ("eps_frac", "step_size"):
        if not 0 < own[key] < math.inf:
            raise ValueError(f"{key}: {own[key]} (allowed: above 0)")
    if not 0 < settings.shrink <= 1:
        raise ValueError(f"shrink: {settings.shrink} (allowed: above 0, at most 1)")
    names = [name for name, paths in inputs.items() if paths]
    if not names or len(names) < len(inputs):
        raise ValueError(f"inputs: {len(names)} of {len(inputs)} with a file (allowed: one for each network)")
    given = settings.references
    wrong = [name for name in given if name not in names]
    if wrong or not given or len(set(given)) < len(given):
        raise ValueError(
            f"references: {', '.join(given) or 'none'} (allowed: some of {', '.join(names)}, each once)"
        )


def read(name: str, samples: int) -> tuple[Examples, Any]:
    """The dev part of a task, and its source.

    Raises:
        ValueError: the task is unknown, has no labels, or is a regression.
    """
    from relearn.data.mirror import mirror_of
    from relearn.data.text_tasks import metric_of
    from relearn.data.text_tasks import read as read_task

    if metric_of(name)[0] == "regression":
        raise ValueError(
            f"task: {name} is a regression without correct answers (allowed: classification or ranking)"
        )
    # load only one sample of the unused parts
    task = read_task(name, {"train": 1, "dev": samples, "test": 1}, mirror_of)
    if task.dev.labels is None or not len(task.dev):
        raise ValueError(f"task: {name} has no labelled dev part (allowed: one that has)")
    return task.dev, task.source


class Probe:
    """The results by sample; finished batches survive a restart."""

    def __init__(self, run: Any, settings: Settings, networks: Mapping[str, Network]) -> None:
        from relearn.runs.checkpoint import Checkpoint

        self.seed, self.settings, self.networks = run.seed, settings, networks
        self.ids = next(iter(networks.values())).batches.examples.ids
        self.checkpoint = Checkpoint(run.work / "batches")
        self.done: dict[str, Any] = (self.checkpoint.load() or {}).get("batches", {})
        self.losses: dict[str, list[float]] = {}
        self.kept: list[int] = []
        self.radii: dict[str, dict[str, Any]] = {}
        self.increases: dict[tuple[str, str], dict[int, float]] = {}
        self.nonfinite = 0

    def groups(self, numbers: list[int]) -> list[Tensor]:
        """Batches of samples of similar length."""
        from itertools import groupby

        import torch

        own = next(iter(self.networks.values())).batches
        candidates, lengths = own.candidates.tolist(), own.lengths.tolist()
        order = sorted(numbers, key=lambda one: (candidates[one], lengths[one], one))
        parts = [torch.tensor(list(group)) for _, group in groupby(order, key=lambda one: candidates[one])]
        return [one for part in parts for one in part.split(self.settings.batch_size)]

    def clean(self) -> None:
        """Compute the losses without perturbation and find the samples that all networks answer correctly."""
        import torch

        from relearn.measures.loss_increase import sample_losses

        right = torch.ones(len(self.ids), dtype=torch.bool)
        for name, network in self.networks.items():
            losses = torch.zeros(len(self.ids), dtype=torch.float64)
            for numbers in self.groups(list(range(len(self.ids)))):
                given, labels = network.batches.batch(numbers)
                with torch.no_grad():
                    loss, answer = sample_losses(network.net(*given), labels)
                losses[numbers] = loss.cpu()
                right[numbers] &= (answer & loss.isfinite()).cpu()
            self.losses[name] = losses.tolist()
        self.kept = right.nonzero().flatten().tolist()

    def attack_all(self, reference: str) -> None:
        """Find the radii of one reference and the increases of all networks at these radii."""
        import torch

        eps, held = torch.zeros(len(self.ids)), torch.zeros(len(self.ids), dtype=torch.bool)
        shares = torch.zeros(len(self.ids), dtype=torch.float64)
        for model in (reference, *(name for name in self.networks if name != reference)):
            own = model == reference
            todo = self.kept if own else [number for number in self.kept if held[number]]
            increases = self.increases[reference, model] = {}
            for numbers, found in self.batchwise(reference, model, todo, eps):
                increases.update(zip(numbers.tolist(), found["increases"].tolist()))
                self.nonfinite += int(found["nonfinite"].sum())
                if own:
                    eps[numbers], held[numbers], shares[numbers] = (
                        found["eps"],
                        found["held"],
                        found["shares"],
                    )
        inside = [number for number in self.kept if held[number]]
        self.radii[reference] = {"eps": eps.tolist(), "held": inside, "shares": shares[inside].tolist()}

    def batchwise(self, reference: str, model: str, todo: list[int], eps: Tensor) -> Any:
        """Yield the sample numbers and attack results of each batch; batches finished before a restart are not repeated."""
        from relearn.runs.console import Progress

        before = 0
        with Progress(f"max_loss_increase {model}, radii of {reference}") as progress:
            for place, numbers in enumerate(self.groups(todo)):
                name = f"{reference}/{model}/{place}"
                if name not in self.done:

                    def report_progress(share: float, before: int = before, size: int = len(numbers)) -> None:
                        progress(before + int(size * share), len(todo))

                    radius = None if model == reference else eps[numbers]
                    self.done[name] = self.attack(
                        self.networks[model].samples(numbers), numbers, radius, report_progress
                    )
                    self.checkpoint.save({"batches": self.done})
                before += len(numbers)
                yield numbers, self.done[name]

    def attack(
        self, samples: Samples, numbers: Tensor, eps: Tensor | None, report_progress: Callable[[float], None]
    ) -> dict[str, Any]:
        """Increases at the radii ``eps``; if ``eps`` is None, radii and increases. The result is on the CPU."""
        import torch

        from relearn.measures.loss_increase import largest_increase, sample_norms
        from relearn.measures.loss_radius import search_eps

        own = self.settings
        attack: dict[str, Any] = {"steps": own.steps, "step_size": own.step_size, "starts": own.starts}
        attack |= {"seed": self.seed, "numbers": numbers.tolist()}
        attack["progress"] = lambda done, count: report_progress(done / count)
        if eps is not None:
            every = samples.losses_of(torch.arange(len(numbers)))
            at = eps.to(samples.embeds)
            one = largest_increase(every, samples.embeds, samples.real, at, **attack)
            return {"increases": one.increases.cpu(), "nonfinite": one.nonfinite.cpu()}
        size = sample_norms(samples.embeds, samples.real)
        first = own.eps_frac * size
        found = search_eps(
            samples.losses_of, samples.embeds, samples.real, first, shrink=own.shrink, **attack
        )
        return {
            **{key: value.cpu() for key, value in found._asdict().items() if key != "losses"},
            "shares": (found.eps / size).double().cpu(),
        }

    def rows(self) -> list[dict[str, Any]]:
        """The rows of increases.csv."""
        return [
            {
                "id": self.ids[number],
                "reference": reference,
                "model": model,
                "eps": self.radii[reference]["eps"][number],
                "increase_nats": increases.get(number),
                "loss_nats": self.losses[model][number],
            }
            for (reference, model), increases in self.increases.items()
            for number in self.kept
        ]

    def apart_at_equal_loss(self, model: str, other: str, reference: str) -> list[float]:
        """The other network's increase minus the model's, for each sample with a radius on which their losses are alike."""
        ours, theirs = self.increases[reference, model], self.increases[reference, other]
        return [
            theirs[number] - ours[number]
            for number in self.radii[reference]["held"]
            if alike(self.losses[model][number], self.losses[other][number])
        ]

    def metrics(self) -> dict[str, float]:
        """Medians and counts; a median over no samples is omitted."""
        found = {
            "samples_count": float(len(self.kept)),
            "dropped_count": float(len(self.ids) - len(self.kept)),
            "nonfinite_count": float(self.nonfinite),
        }
        for model, losses in self.losses.items() if self.kept else ():
            found[f"loss_{model}_nats"] = statistics.median(losses[number] for number in self.kept)
        for (reference, model), increases in self.increases.items():
            values = [increases[number] for number in self.radii[reference]["held"]]
            if values:
                found[f"increase_{model}_{reference}_nats"] = statistics.median(values)
        for reference in self.radii:
            for model, other in itertools.combinations(self.networks, 2):
                apart = self.apart_at_equal_loss(model, other, reference)
                if apart:
                    name = f"equal_loss_{model}_{other}_{reference}"
                    found[f"{name}_count"] = float(len(apart))
                    found[f"{name}_nats"] = statistics.median(apart)
        for reference, radii in self.radii.items():
            found[f"unheld_{reference}_count"] = float(len(self.kept) - len(radii["held"]))
            if radii["held"]:
                found[f"eps_{reference}_frac"] = statistics.median(radii["shares"])
        return found


def alike(one: float, other: float) -> bool:
    """Whether the larger of two losses is at most :data:`ALIKE` times the smaller."""
    return max(one, other) <= ALIKE * min(one, other)
