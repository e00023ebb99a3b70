"""train_long_char_lm: train a character model in phases of growing length; measure bits per character.

Settings, model: attention (long_short | full), dual_norm, as_released, layers, dim, heads, ffn, dropout, window, segment, rank.
Settings, phases: a list of {length, steps, warmup_steps, batch_size, lr}. Each phase splits the training part into one lane per batch
row and reads the lanes in segments of ``length``, with a cache of the same length, a learning rate that is constant after the warm-up,
and a new optimiser.
Settings, recipe of all phases: optimizer, betas, adam_eps, weight_decay, clip_norm (null: no clipping), diverged_above (the run ends if
the loss in bits exceeds it; null: only if the loss is not finite).
Settings, evaluation: evaluations (number per phase, evenly spaced, the last one at its end) and history_characters (length of the
validation text that they use); evaluation: {form: windows | cached, context, step, batch_size (windows at once), characters (number
from the beginning of a part; 0 for all)}, see relearn.measures.bits_per_character.
Input: stream (from `relearn long_short prepare_char_stream`).
Output: history.csv (phase, step, length, loss_bits, valid_bits, lr), norms.csv (moment, layer, ratio, value_ratio), model.safetensors
(the network at the end, see relearn.models.files).

``step`` continues across phases. loss_bits is the mean over the training batches since the previous row, with dropout; valid_bits is
computed in the cached form, with steps and cache as long as the phase's segments. norms.csv (long_short only) contains the ratio of the
mean l2 norms of window keys and compressed keys, and the same ratio for values, on the first validation batch, before and after
training (zhu2022, figure 5.3).

Metrics: valid_bpc, test_bpc, train_bpc by ``evaluation`` (train_bpc on at most as many characters as the validation part has);
valid_history_bpc, the last valid_bits; parameters_count, steps_count, tokens_count (characters trained on); step_s, the mean time of a
training step without evaluations and without the process's first step (CPU time of this process on a CPU, wall time on a GPU);
norm_ratio_start_max and norm_ratio_start_min over layers, keys and values.

zhu2022 (section 5.3.2) does not state which weights are evaluated (here: the last ones) or whether an optimiser keeps its state between
phases (here: it does not). A diverged run has no bits per character.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from relearn.runs.settings import picked

if TYPE_CHECKING:
    from torch import Tensor

    from relearn.data.prepared_stream import PreparedStream
    from relearn.methods.fit import Fitted
    from relearn.models.long_short_lm import LongShortLM
    from relearn.steps.trained.clock import Clock

NEEDS_TORCH = True
COLUMNS = ("phase", "step", "length", "loss_bits", "valid_bits", "lr")
NORM_COLUMNS = ("moment", "layer", "ratio", "value_ratio")


@dataclass(frozen=True, kw_only=True)
class Phase:
    length: int
    steps: int
    warmup_steps: int
    batch_size: int
    lr: float


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    form: Literal["windows", "cached"]
    context: int
    step: int
    batch_size: int
    characters: int


@dataclass(frozen=True, kw_only=True)
class Settings:
    attention: str
    dual_norm: bool
    as_released: bool
    layers: int
    dim: int
    heads: int
    ffn: int
    dropout: float
    window: int
    segment: int
    rank: int
    phases: Sequence[Phase]
    optimizer: str
    betas: tuple[float, float]
    adam_eps: float
    weight_decay: float
    clip_norm: float | None
    diverged_above: float | None
    evaluations: int
    history_characters: int
    evaluation: Evaluation


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    import torch

    from relearn.data.prepared_stream import load_prepared_stream
    from relearn.models import long_short_lm
    from relearn.runs.checkpoint import Checkpoint
    from relearn.steps.csv_rows import write_rows
    from relearn.steps.trained.clock import Clock

    stream = load_prepared_stream(inputs["stream"][0])
    check(settings, stream)
    parts = {name: torch.from_numpy(ids).to(device) for name, ids in stream.parts.items()}
    net = network(settings, stream.vocabulary).to(device)
    norms = norm_rows("start", net, parts["valid"], settings)
    clock = Clock(device)
    done = Checkpoint(run.work / "phases")  # finished phases; `fit` keeps its own checkpoint within a phase
    state = done.load() or {"phase": 0, "steps": 0, "history": []}
    if state["phase"]:
        net.load_state_dict(state["net"])
    history, steps, outcome, at = list(state["history"]), int(state["steps"]), "ok", None
    for number in range(int(state["phase"]), len(settings.phases)):
        fitted = train(run, settings, number, net, parts, steps, clock, precision)
        history += rows(fitted, settings.phases[number], number + 1, steps)
        if fitted.outcome != "ok":
            outcome, at = fitted.outcome, steps + (fitted.outcome_step or 0)
            steps += fitted.steps
            break
        steps += fitted.steps
        done.save({"phase": number + 1, "steps": steps, "history": history, "net": net.state_dict()})
    metrics: dict[str, float] = {
        "parameters_count": float(sum(parameter.numel() for parameter in net.parameters())),
        "steps_count": float(steps),
        "tokens_count": float(tokens(settings.phases, steps)),
    }
    if start := [row[key] for row in norms for key in ("ratio", "value_ratio")]:
        metrics |= {"norm_ratio_start_max": max(start), "norm_ratio_start_min": min(start)}
    metrics |= clock.per_step()
    if outcome == "ok":
        norms += norm_rows("end", net, parts["valid"], settings)
        metrics |= {
            f"{part}_bpc": bits(net, ids, settings, len(parts["valid"])) for part, ids in parts.items()
        }
        metrics["valid_history_bpc"] = history[-1]["valid_bits"]
    write_rows(run.output("history.csv"), COLUMNS, history)
    write_rows(run.output("norms.csv"), NORM_COLUMNS, norms)
    long_short_lm.FILE.save(net, run.output("model.safetensors"))
    way = settings.evaluation
    run.finish(
        metrics,
        outcome=outcome,
        outcome_step=at,
        outcome_reason=None if outcome == "ok" else "loss not finite, or beyond diverged_above",
        notes=[
            f"{stream.dataset}: {way.form}, context {way.context}, step {way.step}, "
            f"{scored(len(parts['valid']), way)} valid and {scored(len(parts['test']), way)} test characters scored"
        ],
    )


def check(settings: Settings, stream: PreparedStream) -> None:
    """Reject settings before training that would only fail after it.

    Raises:
        ValueError: no phase, a phase without steps, or an impossible evaluation.
    """
    from relearn.measures.bits_per_character import windows

    if not settings.phases:
        raise ValueError("phases: none (allowed: at least one)")
    for number, phase in enumerate(settings.phases, 1):
        if phase.steps < 1:
            raise ValueError(f"phases: phase {number} has {phase.steps} steps (allowed: at least 1)")
    if settings.evaluations < 1:
        raise ValueError(f"evaluations: {settings.evaluations} (allowed: at least 1)")
    if settings.history_characters < 2:
        raise ValueError(f"history_characters: {settings.history_characters} (allowed: at least 2)")
    way = settings.evaluation
    shortest = min(scored(len(ids), way) + 1 for ids in stream.parts.values())
    step = way.step if way.form == "windows" else min(way.step, way.context)
    windows(shortest, context=way.context, step=step)


def network(settings: Settings, vocabulary: int) -> LongShortLM:
    """The model; its weights are drawn from torch's global generator."""
    from relearn.models.long_short_lm import create

    kind = picked(settings, "attention", "dual_norm", "as_released", "dropout")
    sizes = picked(settings, "layers", "dim", "heads", "ffn", "window", "segment", "rank")
    return create(vocabulary=vocabulary, **kind, **sizes)


def train(
    run: Any,
    settings: Settings,
    number: int,
    net: LongShortLM,
    parts: Mapping[str, Tensor],
    before: int,
    clock: Clock,
    precision: str,
) -> Fitted:
    """Train ``net`` in place in phase ``number`` (0-based), after ``before`` steps of earlier phases."""
    from relearn.data.stream_batches import StreamBatches
    from relearn.measures.bits_per_character import cached
    from relearn.methods.fit import fit
    from relearn.models.carried_cache import CarriedCache
    from relearn.runs.checkpoint import Checkpoint
    from relearn.runs.console import Progress
    from relearn.steps.trained.seed import seed_of
    from relearn.steps.trained.spacing import spacing

    phase = settings.phases[number]
    length, batch_size = phase.length, phase.batch_size
    some = parts["valid"][: settings.history_characters]
    device = some.device

    def evaluate(model: Any) -> dict[str, float]:
        clock.stop()
        found = cached(reader(model.net, length), some, step=length)
        clock.start()
        return {"valid_bits": found}

    above = settings.diverged_above
    row, apart = spacing(phase.steps, settings.evaluations)
    with Progress(f"train_long_char_lm phase {number + 1}") as progress:
        clock.start()
        fitted = fit(
            CarriedCache(net, batch_size=batch_size, length=length),
            StreamBatches(parts["train"], length=length, batch_size=batch_size, device=device),
            loss=loss,
            steps=phase.steps,
            lr=phase.lr,
            warmup_steps=phase.warmup_steps,
            schedule="constant",
            optimizer=settings.optimizer,
            betas=settings.betas,
            eps=settings.adam_eps,
            weight_decay=settings.weight_decay,
            clip_norm=settings.clip_norm,
            diverged_above=None if above is None else above * math.log(2),
            seed=seed_of({"phase": str(number)}, run.seed, "phase"),  # the same dropout for every variant
            precision=precision,
            evaluate=evaluate,
            evaluate_every=apart,
            history_steps=row,
            log=lambda step, **values: run.log(before + step, **values),
            progress=but_the_first(clock, progress),
            checkpoint=Checkpoint(run.work / f"phase{number + 1}"),
            checkpoint_steps=max(50, phase.steps // 10),
        )
        clock.stop()
    net.eval()
    return fitted


def but_the_first(clock: Clock, progress: Any) -> Any:
    """Wrap ``progress`` with a clock that excludes the process's first step, in which the optimiser loads its code."""
    counted, first = clock.counting(progress), clock.steps == 0

    def report_progress(done: int, total: int) -> None:
        nonlocal first
        counted(done, total)
        if first:
            first, clock.spent, clock.steps = False, 0.0, 0
            clock.start()

    return report_progress


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats, in at least single precision."""
    from torch.nn.functional import cross_entropy

    wide = logits.float() if logits.element_size() < 4 else logits
    return cross_entropy(wide.flatten(0, 1), targets.flatten())


def rows(fitted: Fitted, phase: Phase, number: int, before: int) -> list[dict[str, Any]]:
    """Rows of the history for one phase."""
    return [
        {
            "phase": number,
            "step": before + int(row["step"]),
            "length": phase.length,
            "loss_bits": row["loss"] / math.log(2),
            "valid_bits": row.get("valid_bits"),
            "lr": row["lr"],
        }
        for row in fitted.history
    ]


def tokens(phases: Sequence[Phase], steps: int) -> int:
    """Number of characters used in the first ``steps`` training steps."""
    count = 0
    for phase in phases:
        here = min(steps, phase.steps)
        count, steps = count + here * phase.batch_size * phase.length, steps - here
    return count


def scored(characters: int, way: Evaluation) -> int:
    """Number of scored characters of a part: all but the first, of at most ``characters``."""
    return min(way.characters or characters, characters) - 1


def bits(net: LongShortLM, ids: Tensor, settings: Settings, most: int) -> float:
    """Bits per character of a part, measured by the run's ``evaluation`` on at most ``most`` characters."""
    import torch

    from relearn.measures.bits_per_character import cached, windowed

    way = settings.evaluation
    some = ids[: min(scored(len(ids), way) + 1, most)]
    net.eval()
    with torch.no_grad():
        if way.form == "cached":
            return cached(reader(net, way.context), some, step=way.step)
        sizes = {"context": way.context, "step": way.step, "batch_size": way.batch_size}
        return windowed(lambda tokens: net(tokens)[0], some, **sizes)


def reader(net: LongShortLM, context: int) -> Any:
    """Wrap ``net`` as the function that ``cached`` expects, with a cache of ``context`` characters."""

    def read(tokens: Tensor, kept: Any) -> Any:
        return net(tokens, cache=kept, keep=context)

    return read


def norm_rows(moment: str, net: LongShortLM, ids: Tensor, settings: Settings) -> list[dict[str, Any]]:
    """Norm ratios of each layer on the first batch of a part, shaped as in the first phase; empty for full attention."""
    from relearn.data.stream_batches import StreamBatches
    from relearn.measures.window_norms import norm_ratios

    if settings.attention == "full":
        return []
    phase = settings.phases[0]
    length = min(phase.length, len(ids) - 1)
    lanes = min(phase.batch_size, (len(ids) - 1) // length)
    (inputs, _), _ = StreamBatches(ids, length=length, batch_size=lanes, device=ids.device).batch(0)
    return [{"moment": moment, **row} for row in norm_ratios(net, inputs)]
