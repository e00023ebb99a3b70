r"""FreeLB for people who fine-tune with Hugging Face: ``transformers.Trainer``, whose step is algorithm 3 of zhu2022::

    trainer = FreeLBTrainer(model=model, args=args, train_dataset=data, freelb=FreeLBArguments(step_size=0.1, eps=0.3))
    trainer.train()

It needs ``accelerate``, as the Trainer does (``pip install 'relearn[trainer]'``). The formulas stand in :mod:`relearn.methods.freelb`,
the options in :mod:`relearn.methods.adversarial_base`.

A step is K times the Trainer's own ``training_step`` on one micro-batch, each with δ added to the word embeddings and with a K-th of its
loss sent back. So all that the Trainer does with a loss is done here too: gradient accumulation and the number of items in all
micro-batches, label smoothing, a ``compute_loss`` or ``compute_loss_func`` of one's own, bf16, fp16 with its scale, clipping. The loss
that it logs is the mean of the passes; ``skipped_count`` beside it counts the steps of δ that were left out because a gradient was not
finite. δ_0 and the masks come from torch's generators, which the Trainer's checkpoints hold: a resumed training is the uninterrupted one.

Facts (tests/methods/test_freelb_trainer.py): with ``eps`` 0, or with one pass from zero, it is the Trainer bit for bit; it trains to the
parameters of :func:`relearn.methods.fit.fit` with :class:`~relearn.methods.freelb.FreeLB`.

Data parallel training. Under ``DistributedDataParallel`` each process perturbs its own rows, and the gradients are summed over the
processes in the last pass alone. Under ``nn.DataParallel`` each device gets its rows' part of δ.

Importing this module imports transformers' Trainer, which takes seconds; nothing else here imports it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from relearn import torchvision_schema
from relearn.methods.adversarial_base import frozen_running_statistics
from relearn.methods.embedding_space import EmbeddingField, EmbeddingSpace, word_embeddings
from relearn.methods.freelb import FreeLB

torchvision_schema.declare()
try:
    from transformers import Trainer
except ImportError as error:
    raise ImportError(
        f"transformers.Trainer: {error} (allowed: with accelerate, pip install 'relearn[trainer]')"
    ) from error


@dataclass
class FreeLBArguments(FreeLB):
    """The settings of :class:`FreeLBTrainer`; those of :class:`~relearn.methods.freelb.FreeLB`, with its defaults and errors.

    Args:
        passes: forward and backward passes K of a batch.
        step_size, eps, start_norm: α, ε and the magnitude of δ_0.
        project, clean_first, mask, norm, reuse_masks: see there.
        space: ``EmbeddingSpace("name.of.the.module")`` where the model does not say itself which module looks words up.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.space, EmbeddingSpace):
            raise ValueError(
                f"space: found {type(self.space).__name__} (allowed: EmbeddingSpace, as the Trainer's inputs are tokens)"
            )

    @property
    def is_plain(self) -> bool:
        """Whether a step is the Trainer's own."""
        return self.ball.is_point or (self.passes == 1 and (self.clean_first or self.ball.magnitude == 0))


class FreeLBTrainer(Trainer):
    """``transformers.Trainer`` with algorithm 3 in place of a plain step; see the module.

    Args:
        freelb: the settings; by default all as they stand in :class:`FreeLBArguments`.

    Further arguments: the Trainer's. The inputs need ``input_ids``, (B, n) or (B, C, n) with C candidates of a question (one δ, one ball),
    and ``attention_mask`` of that shape where there is padding.

    Raises:
        ValueError: a model without input embeddings; DeepSpeed, SageMaker, an optimiser that steps inside its backward pass (LOMO), or
            ``torch_compile``: they leave no room for K passes or for a hook; settings of another strategy; in training, inputs without
            ``input_ids``, or of another tokenizer than the model's: ids that it has no embedding for.
    """

    def __init__(self, *args: Any, freelb: FreeLB | None = None, **kwargs: Any) -> None:
        if freelb is not None and not isinstance(freelb, FreeLB):
            raise ValueError(f"freelb: found {type(freelb).__name__} (allowed: FreeLBArguments, FreeLB)")
        super().__init__(*args, **kwargs)
        self.freelb = freelb if isinstance(freelb, FreeLBArguments) else FreeLBArguments(**vars_of(freelb))
        word_embeddings(self.accelerator.unwrap_model(self.model), self._module)
        found = {
            "deepspeed": self.is_deepspeed_enabled,
            "torch_compile": self.args.torch_compile,
            "optim": "lomo" in str(self.args.optim).lower(),
            "sagemaker": hasattr(self.args, "mp_parameters") and bool(self.args.mp_parameters),
        }
        for key, value in found.items():
            if value:
                raise ValueError(
                    f"{key}: found {self.args.optim if key == 'optim' else value} (allowed: not with FreeLBTrainer)"
                )

    @property
    def skipped_count(self) -> int:
        """Steps of a sample's δ left out so far, because its gradient was not finite."""
        return self.freelb.skipped_count

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """The K passes of one micro-batch; the mean of their losses."""
        freelb = self.freelb
        if freelb.is_plain:
            return super().training_step(model, inputs, num_items_in_batch)
        inputs = self._prepare_inputs(inputs)
        masks, total = freelb.masks(), torch.zeros((), device=self.args.device)
        with self._field(model, inputs) as field, self._share(freelb.passes):
            delta = freelb.start(field)
            for t in range(freelb.passes):
                place = torch.zeros_like(delta) if freelb.clean_first and t == 0 else delta
                if freelb.watch:
                    freelb.watch(t, place)
                last = t + 1 == freelb.passes
                with (
                    masks.again() if t else masks.drawing(),
                    frozen_running_statistics(model if t else None),
                    contextlib.nullcontext() if last else self.accelerator.no_sync(model),
                    field.moved(place),
                ):
                    value = super().training_step(model, inputs, num_items_in_batch)
                total, gradient = total + value / freelb.passes, field.gradient()
                if not last:
                    delta = freelb.ascend(field, delta, gradient)
            field.finish()
        return total

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """The Trainer's, with ``skipped_count`` beside the loss."""
        if "loss" in logs and not self.freelb.is_plain:
            logs = {**logs, "skipped_count": self.skipped_count}
        super().log(logs, *args, **kwargs)

    @property
    def _module(self) -> str | None:
        space = self.freelb.space
        assert isinstance(space, EmbeddingSpace)
        return space.module

    @contextlib.contextmanager
    def _field(self, model: nn.Module, inputs: Mapping[str, Any]) -> Iterator[_Field]:
        tokens, real = inputs.get("input_ids"), inputs.get("attention_mask")
        if tokens is None:
            raise ValueError(
                f"input_ids: missing among {', '.join(inputs)} (allowed: tokens, whose embeddings are perturbed)"
            )
        if real is not None and real.shape != tokens.shape:
            raise ValueError(
                f"attention_mask: found shape {tuple(real.shape)} (allowed: {tuple(tokens.shape)}, as input_ids)"
            )
        bare = self.accelerator.unwrap_model(model)
        table = word_embeddings(bare, self._module)
        _check_ids(tokens, table)
        devices = [torch.device("cuda", index) for index in getattr(model, "device_ids", None) or ()]
        scattered = isinstance(model, nn.DataParallel) and len(devices) > 1
        field = _Field(bare, tokens if real is None else (tokens, real), table, devices if scattered else [])
        # Wrapped models collect the gradients of their own passes: the table's must be among them.
        field.once = field.once and bare is model
        handle = table.register_forward_hook(field.hook)
        try:
            yield field
        finally:
            handle.remove()

    @contextlib.contextmanager
    def _share(self, passes: int) -> Iterator[None]:
        """Inside, a ``passes``-th of each loss is sent back, whoever has computed it."""
        whole, own = self.accelerator.backward, vars(self.accelerator)
        kept = own.get("backward")
        own["backward"] = lambda loss, **kwargs: whole(loss / passes, **kwargs)
        try:
            yield
        finally:
            del own["backward"]
            if kept is not None:
                own["backward"] = kept


class _Field(EmbeddingField):
    """A batch whose forward pass somebody else runs; ``devices``: over which the rows are scattered, if over several."""

    mask_name = "attention_mask"

    def __init__(self, model: nn.Module, inputs: Any, table: nn.Module, devices: list[torch.device]) -> None:
        super().__init__(model, inputs, table)
        self.devices = devices

    @contextlib.contextmanager
    def moved(self, delta: Tensor) -> Iterator[None]:
        """Inside, the network's words are moved by ``delta``."""
        self.delta, self.calls = delta, 0
        if self.devices:
            self.leaf, self.calls = delta.detach().requires_grad_(), 1
        try:
            yield
        finally:
            self.delta = None
        self.looked_up()

    def hook(self, module: nn.Module, arguments: Any, rows: Any) -> Tensor | None:
        if self.delta is None or not self.devices:
            return super().hook(module, arguments, rows)
        parts = self.point.reshape(self.samples, -1).chunk(len(self.devices))
        return rows + parts[self.devices.index(rows.device)].reshape(rows.shape).to(rows)


def _check_ids(tokens: Tensor, table: nn.Module) -> None:
    """On a GPU a wrong id would end in a failed assertion far from here."""
    if not isinstance(table, nn.Embedding) or not tokens.numel():
        return
    least, most = (int(one) for one in torch.stack(tokens.aminmax()).tolist())
    if least < 0 or most >= table.num_embeddings:
        raise ValueError(
            f"input_ids: found {least if least < 0 else most} (allowed: 0 to {table.num_embeddings - 1}, "
            "the model's embeddings: is the tokenizer the model's?)"
        )


def vars_of(freelb: FreeLB | None) -> dict[str, Any]:
    """The settings of a strategy, as arguments."""
    return {} if freelb is None else {key: getattr(freelb, key) for key in freelb.__dataclass_fields__}
