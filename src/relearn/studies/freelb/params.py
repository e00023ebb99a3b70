"""The section ``freelb`` of params.yaml (zhu2022, chapter 3): types, ranges and cross-field validation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from relearn.data.facts import CLASSES, images_for_testing
from relearn.params.conflicts import Conflict, at_most, check, forecast
from relearn.params.forecast_memory import TRAINED, Need, Tensor, transformer
from relearn.params.types import (
    LONGEST_LIST,
    BatchSize,
    Count,
    Distinct,
    Distinct0,
    Length,
    NotNegative,
    Positive,
    Rising,
    Rising0,
    SamplesOrAll,
    Section,
    Seed,
    Seeds,
    Share,
    Steps,
    StepsOrNone,
)
from relearn.params.vision import Betas
from relearn.studies.freelb.params_encoders import Encoders, PretrainEncoder, Schedule, TextCorpus
from relearn.studies.freelb.params_images import Images, TrainImagesAdversarially, radius
from relearn.studies.freelb.plan import COMPARED
from relearn.studies.freelb.plan.members import COMPARED_ENCODER
from relearn.studies.freelb.plan.second_encoder import CHOSEN_BY

Encoder = Literal["roberta", "albert", "bert"]
Task = Literal[
    "cola",
    "sst2",
    "mrpc",
    "stsb",
    "qqp",
    "mnli",
    "qnli",
    "qnli_pairs",
    "rte",
    "wnli",
    "wnli_pairs",
    "imdb",
    "acceptability",
    "arc_easy",
    "arc_challenge",
    "arc",
    "csqa",
    "race",
    "openbookqa",
    "regents",
]
Method = Literal[
    "vanilla",
    "pgd",
    "free_at",
    "freelb",
    "freelb_fresh",
    "freelb_wide",
    "freelb_fresh_wide",
    "freelb_fresh_as_freelb",
    "vanilla_as_often_as_free_at",
    "free_at_as_often_as_freelb",
    "yopo_2",
    "yopo_3",
    "yopo_2_whole",
    "yopo_3_whole",
]
SecondMethod = Literal[Method, "pgd_as_freelb", "freelb_as_pgd"]
Name = Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")]
NameOrNone = Annotated[str, Field(pattern="^([a-z][a-z0-9_]*)?$")]
MOST_MEMBERS = 100
Methods = Distinct[Method]


class FineTuning(Section):
    """One task of one encoder: methods, data and recipe.

    The name is the task's name without ``_pairs``. There are two exceptions: a run that starts from another run or has joint
    tasks may have any name, and the ranking form of a task may be called ``<task>_ranking`` to distinguish it from a run on pairs.
    A sample count of 0 means all samples; a ``clip_norm`` of 0 means no clipping.
    """

    encoder: Encoder
    name: Name
    task: Task
    methods: Methods
    init_from: NameOrNone
    joint_tasks: Distinct0[Task]
    train_samples: SamplesOrAll
    dev_samples: SamplesOrAll
    test_samples: SamplesOrAll
    max_length: Annotated[Length, Field(ge=8)]
    steps: Steps
    warmup_steps: StepsOrNone
    batch_size: BatchSize
    gradient_accumulation_steps: Count
    lr: Positive
    weight_decay: NotNegative
    dropout: Share
    attention_dropout: Share
    clip_norm: NotNegative
    passes: Count
    step_size: NotNegative
    start_norm: NotNegative
    eps: NotNegative
    project: bool

    @check
    def _name(self) -> Iterator[Conflict]:
        task = self.task.removesuffix("_pairs")
        ranking = self.name == f"{task}_ranking" and f"{self.task}_pairs" in get_args(Task)
        if self.name != task and not ranking and not self.init_from and not self.joint_tasks:
            text = (
                f"found {self.name}, allowed: {task}, its task (another name with init_from or joint_tasks)"
            )
            yield "name", text

    _warmup = at_most("warmup_steps", "steps")

    @check
    def _batch(self) -> Iterator[Conflict]:
        batch, samples, shares = self.batch_size, self.train_samples, self.gradient_accumulation_steps
        if samples and batch > samples:
            yield "batch_size", f"found {batch}, allowed: at most train_samples = {samples}"
        if batch % shares:
            yield "gradient_accumulation_steps", f"found {shares}, allowed: divisors of batch_size = {batch}"

    _radius = radius

    @check
    def _joint_tasks(self) -> Iterator[Conflict]:
        if self.task in self.joint_tasks:
            yield "joint_tasks", f"found {self.task}, allowed: other tasks than its own"


class Decisive(Section):
    """The RoBERTa tasks that decide the claims: all seeds, learning rate and radius tuned per method, and held-out samples.

    ``other_seeds``: the number of seeds of all other runs; 0 means all. ``held_out``: the number of training samples that are held out;
    the score on them decides, because the dev part is used to choose rate, radius and the best network. ``rates`` and ``radii`` (factors
    of step_size, start_norm and eps) are tried for each method with ``tuning_seeds``; without rates there is no search.
    """

    tasks: Distinct0[Name]
    other_seeds: StepsOrNone
    held_out: SamplesOrAll
    tuning_seeds: Seeds
    rates: Rising0[Positive]
    radii: Rising[Positive]


class SecondEncoder(Section):
    """Decisive runs that are repeated on a RoBERTa pretrained with another seed, as controls; no tasks: none.

    ``seeds`` is the number of seeds. Every method tries ``rates`` (and the radii of ``decisive``) with the same tuning seeds, also the
    controls for the number of updates; only ``pgd_as_freelb`` has FreeLB's choice, and ``freelb_as_pgd`` PGD's.
    """

    tasks: Distinct0[Name]
    pretrain_seed: Seed
    seeds: Count
    rates: Rising[Positive]
    methods: Distinct[SecondMethod]

    @check
    def _methods(self) -> Iterator[Conflict]:
        for control, base in CHOSEN_BY.items():
            if control in self.methods and base not in self.methods:
                yield "methods", f"found {control} without {base}, allowed: with {base}, whose choice it has"


class FineTune(Section):
    betas: Betas
    adam_eps: Positive
    schedule: Schedule
    evaluations: Count
    clean_first: bool
    wide: Annotated[Positive, Field(gt=1)]
    free_at_rate: Annotated[Positive, Field(le=1)]
    mask: Literal["always", "start"]
    decisive: Decisive
    second_encoder: SecondEncoder
    runs: Annotated[list[FineTuning], Field(min_length=1, max_length=LONGEST_LIST)]

    @check
    def _names(self) -> Iterator[Conflict]:
        """Names are unique per encoder, and ``init_from`` names an earlier run that has vanilla training."""
        before: dict[tuple[str, str], Sequence[str]] = {}
        for index, run in enumerate(self.runs):
            encoder, name, first = run.encoder, run.name, run.init_from
            if (encoder, name) in before:
                yield ("runs", index, "name"), f"found {name} twice for {encoder}, allowed: once"
            if first and "vanilla" not in before.get((encoder, first), []):
                ready = [
                    other for (whose, other), by in before.items() if whose == encoder and "vanilla" in by
                ]
                text = f"found {first}, allowed: empty, or a run above that has vanilla: {', '.join(ready) or 'none'}"
                yield ("runs", index, "init_from"), text
            before[encoder, name] = run.methods

    @check
    def _decisive(self) -> Iterator[Conflict]:
        ready = [
            run.name
            for run in self.runs
            if run.encoder == COMPARED_ENCODER and not run.init_from and not run.joint_tasks
        ]
        for index, name in enumerate(self.decisive.tasks):
            if name not in ready:
                text = f"allowed: runs of {COMPARED_ENCODER} without init_from and joint_tasks: {', '.join(ready) or 'none'}"
                yield ("decisive", "tasks", index), f"found {name}, {text}"
        for index, name in enumerate(self.second_encoder.tasks):
            if name not in self.decisive.tasks:
                text = f"found {name}, allowed: those of decisive: {', '.join(self.decisive.tasks) or 'none'}"
                yield ("second_encoder", "tasks", index), text


class MaxLossIncrease(Section):
    """``radius_decay``: the share of the first radius by which the radius shrinks as long as the reference is fooled."""

    tasks: Distinct0[Name]
    samples: SamplesOrAll
    steps: Steps
    step_size: Positive
    eps_frac: Positive
    radius_decay: Annotated[float, Field(gt=0, lt=1)]
    restarts: Count
    batch_size: BatchSize


class Ensemble(Section):
    """Ensembles of each method's RoBERTa networks; additional seeds are trained if an ensemble has more members than there are seeds."""

    methods: Distinct0[Method]
    members: Annotated[Count, Field(le=MOST_MEMBERS)]
    csqa_members: Annotated[Count, Field(le=MOST_MEMBERS)]


class FreeLB(Section):
    seeds: Seeds
    corpus: TextCorpus
    encoders: Encoders
    pretrain_encoder: PretrainEncoder
    finetune: FineTune
    max_loss_increase: MaxLossIncrease
    ensemble: Ensemble
    images: Images
    train_images_adversarially: TrainImagesAdversarially

    @check
    def _lengths(self) -> Iterator[Conflict]:
        """``max_length`` must not exceed that of an encoder pretrained here."""
        for index, run in enumerate(self.finetune.runs):
            encoder = getattr(self.encoders, run.encoder)
            if not encoder.checkpoint and run.max_length > encoder.max_length:
                most = f"encoders.{run.encoder}.max_length = {encoder.max_length}"
                yield (
                    ("finetune", "runs", index, "max_length"),
                    f"found {run.max_length}, allowed: at most {most}",
                )

    @check
    def _compared_tasks(self) -> Iterator[Conflict]:
        """Table 3.5 compares three networks of the same encoder and task; regression is excluded because it has no correct answers."""
        ready = [
            run.name
            for run in self.finetune.runs
            if run.encoder == COMPARED_ENCODER and {*COMPARED} <= {*run.methods} and run.task != "stsb"
        ]
        which = f"runs of {COMPARED_ENCODER} with {', '.join(COMPARED)}"
        for index, name in enumerate(self.max_loss_increase.tasks):
            if name not in ready:
                yield (
                    ("max_loss_increase", "tasks", index),
                    f"found {name}, allowed: {', '.join(ready) or 'none'} ({which})",
                )

    @check
    def _seeds_of_tasks(self) -> Iterator[Conflict]:
        """Tuning seeds must differ from ``seeds``, and there must be enough seeds for the ensemble members."""
        own = self.finetune.decisive
        for index, seed in enumerate(own.tuning_seeds):
            if seed in self.seeds:
                yield (
                    ("finetune", "decisive", "tuning_seeds", index),
                    f"found {seed}, allowed: none of seeds",
                )
        most = len(self.seeds)
        second = self.finetune.second_encoder
        if second.tasks and second.pretrain_seed == self.seeds[0]:
            text = f"found {second.pretrain_seed}, allowed: another one than seeds[0], the first encoder's"
            yield "finetune.second_encoder.pretrain_seed", text
        if second.tasks and second.seeds > most:
            yield "finetune.second_encoder.seeds", f"found {second.seeds}, allowed: at most the {most} seeds"
        if own.other_seeds > most:
            text = f"found {own.other_seeds}, allowed: at most the {most} seeds; 0 = all"
            yield "finetune.decisive.other_seeds", text
        members = max(self.ensemble.members, self.ensemble.csqa_members) if self.ensemble.methods else 0
        if 0 < own.other_seeds < min(members, most):
            text = f"found {own.other_seeds}, allowed: at least the {min(members, most)} members of ensemble; 0 = all"
            yield "finetune.decisive.other_seeds", text

    @check
    def _ensembles(self) -> Iterator[Conflict]:
        known = {method for run in self.finetune.runs for method in run.methods}
        for index, method in enumerate(self.ensemble.methods):
            if method not in known:
                yield ("ensemble", "methods", index), f"found {method}, allowed: methods of finetune.runs"

    @check
    def _image_counts(self) -> Iterator[Conflict]:
        """There must be enough images for the batch size and for the attack."""
        dataset, images = self.images.dataset, CLASSES * self.images.train_per_class
        own = self.train_images_adversarially
        if own.train.batch_size > images:
            text = f"found {own.train.batch_size}, allowed: at most {images} images ({CLASSES} x images.train_per_class)"
            yield "train_images_adversarially.train.batch_size", text
        most = images_for_testing(dataset, images)
        if own.attack.images > most:
            text = f"found {own.attack.images}, allowed: at most the {most} test images of {dataset}; 0 = all"
            yield "train_images_adversarially.attack.images", text

    @forecast
    def _encoder_memory(self) -> Iterator[Need]:
        """Memory of pretraining and fine-tuning for encoders pretrained here; a checkpoint has its own sizes."""
        for name in Encoders.model_fields:
            own = getattr(self.encoders, name)
            if own.checkpoint:
                continue
            sizes: dict[str, Any] = {
                "layers": own.layers,
                "dim": own.dim,
                "ffn": own.ffn,
                "heads": own.heads,
                "shared": name == "albert",
            }
            vocabulary, batch, length = own.vocabulary, self.pretrain_encoder.batch_size, own.max_length
            shape = (("vocabulary", vocabulary), ("embedding_dim", own.embedding_dim))
            embedding = Tensor("embedding", shape, TRAINED)
            logits = Tensor("logits", (("batch", batch), ("length", length), ("vocabulary", vocabulary)))
            tensors = transformer(**sizes, length=length, batch=batch)
            yield Need(("encoders", name, "dim"), own.dim, (*tensors, embedding, logits))
            for index, run in enumerate(self.finetune.runs):
                if run.encoder == name:
                    share = run.batch_size // run.gradient_accumulation_steps
                    tensors = transformer(**sizes, length=run.max_length, batch=share)
                    yield Need(
                        ("finetune", "runs", index, "batch_size"), run.batch_size, (*tensors, embedding)
                    )


SECTION = FreeLB
