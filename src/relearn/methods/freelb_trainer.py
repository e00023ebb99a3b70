r"""FreeLB for Hugging Face: a ``transformers.Trainer`` whose training step is algorithm 3 of zhu2022::

    trainer = FreeLBTrainer(model=model, args=args, train_dataset=data, freelb=FreeLBArguments(step_size=0.1, eps=0.3))
    trainer.train()

It needs ``accelerate``, as the Trainer does (``pip install 'relearn[trainer]'``). The formulas are in :mod:`relearn.methods.freelb`,
the options in :mod:`relearn.methods.adversarial_base`.

A step runs the Trainer's own ``training_step`` K times on one micro-batch, each time with δ added to the word embeddings and 1/K of the
loss back-propagated. Everything the Trainer does with a loss therefore works: gradient accumulation and the number of items in all
micro-batches, label smoothing, a custom ``compute_loss`` or ``compute_loss_func``, bf16, fp16 with loss scaling, clipping. The logged
loss is the mean over the passes; ``skipped_count`` is logged with it and counts ascent steps skipped because a gradient was not finite.
δ_0 and the masks come from torch's generators, which the Trainer's checkpoints save, so resumed training equals uninterrupted training.

Facts (tests/methods/test_freelb_trainer.py): with ``eps`` 0, or with one pass from zero, it is the Trainer bit for bit; it ends at
the same parameters as :func:`relearn.methods.fit.fit` with :class:`~relearn.methods.freelb.FreeLB`.

Data parallel training. Under ``DistributedDataParallel`` each process perturbs its own rows, and the gradients are reduced
over the processes in the last pass only. Under ``nn.DataParallel`` each device gets the part of δ for its rows.

Importing this module imports transformers' Trainer, which takes seconds; no other module imports it.
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
    """Settings of :class:`FreeLBTrainer`: those of :class:`~relearn.methods.freelb.FreeLB`, with the same defaults and errors.

    Args:
        passes: K, forward and backward passes per batch.
        step_size, eps, start_norm: α, ε and the magnitude of δ_0.
        project, clean_first, mask, norm, reuse_masks: see there.
        space: ``EmbeddingSpace("name.of.the.module")`` if the model does not declare which module looks up words.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.space, EmbeddingSpace):
            raise ValueError(
                f"space: found {type(self.space).__name__} (allowed: EmbeddingSpace, as the Trainer's inputs are tokens)"
            )

    @property
    def is_plain(self) -> bool:
        """Whether a step equals the Trainer's own, without perturbation."""
        return self.ball.is_point or (self.passes == 1 and (self.clean_first or self.ball.magnitude == 0))


class FreeLBTrainer(Trainer):
    """``transformers.Trainer`` with algorithm 3 in place of a plain step; see the module.

    Args:
        freelb: the settings; default ``FreeLBArguments()``.

    Further arguments: the Trainer's. The inputs need ``input_ids``, (B, n) or (B, C, n) with C candidates per question (one δ, one ball),
    and ``attention_mask`` of the same shape if there is padding.

    Raises:
        ValueError: a model without input embeddings; DeepSpeed, FSDP, SageMaker, an optimiser that steps inside its backward pass (LOMO)
            or ``torch_compile``, because they do not allow K passes or a hook; settings of another strategy; or, during training,
            inputs without ``input_ids``, or token ids outside the embedding table.
    """

    def __init__(self, *args: Any, freelb: FreeLB | None = None, **kwargs: Any) -> None:
        if freelb is not None and not isinstance(freelb, FreeLB):
            raise ValueError(f"freelb: found {type(freelb).__name__} (allowed: FreeLBArguments, FreeLB)")
        super().__init__(*args, **kwargs)
        self.freelb = freelb if isinstance(freelb, FreeLBArguments) else FreeLBArguments(**vars_of(freelb))
        word_embeddings(self.accelerator.unwrap_model(self.model), self._module)
        found = {
            "deepspeed": self.is_deepspeed_enabled,
            "fsdp": self.is_fsdp_enabled,
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
        """Number of ascent steps (per sample) skipped so far because the gradient was not finite."""
        return self.freelb.skipped_count

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """Run the K passes of one micro-batch; returns the mean of their losses."""
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
        """Log as the Trainer does, with ``skipped_count`` added to rows that contain the loss."""
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
        # Wrapped models reduce gradients in their own passes, so each pass must include the table's gradient.
        field.once = field.once and bare is model
        handle = table.register_forward_hook(field.hook)
        try:
            yield field
        finally:
            handle.remove()

    @contextlib.contextmanager
    def _share(self, passes: int) -> Iterator[None]:
        """Context in which only ``1/passes`` of each loss is back-propagated, regardless of where the loss is computed."""
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
    """A batch whose forward pass is run by the caller; ``devices`` lists the devices over which the rows are scattered, if several."""

    mask_name = "attention_mask"

    def __init__(self, model: nn.Module, inputs: Any, table: nn.Module, devices: list[torch.device]) -> None:
        super().__init__(model, inputs, table)
        self.devices = devices

    @contextlib.contextmanager
    def moved(self, delta: Tensor) -> Iterator[None]:
        """Context in which ``delta`` is added to the network's word embeddings."""
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
    """Check the token ids; on a GPU a wrong id would end in a failed assertion elsewhere."""
    if not isinstance(table, nn.Embedding) or not tokens.numel():
        return
    least, most = (int(one) for one in torch.stack(tokens.aminmax()).tolist())
    if least < 0 or most >= table.num_embeddings:
        raise ValueError(
            f"input_ids: found {least if least < 0 else most} (allowed: 0 to {table.num_embeddings - 1}, "
            "the model's embeddings: is the tokenizer the model's?)"
        )


def vars_of(freelb: FreeLB | None) -> dict[str, Any]:
    """The settings of a strategy as keyword arguments."""
    return {} if freelb is None else {key: getattr(freelb, key) for key in freelb.__dataclass_fields__}
