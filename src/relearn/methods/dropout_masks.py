r"""Reuse one dropout mask in all passes of a step, for any network, without changing its code.

zhu2022, section 3.4, eq. 3.4: the ascent from :math:`\delta_{t-1}` to :math:`\delta_t` and the gradient that follows should use ONE
network :math:`f_{\theta(m)}`, so the masks m are drawn once per minibatch and used in all K passes. The released code stores masks in
modified copies of the models' modules (in one of them, of some modules only). Here the *random state* before each call that draws a
mask is stored, and restored before the same call of a later pass: the same state, shape and dtype give the same mask. No mask is
stored, and any module works::

    masks = MaskReplay()
    with masks.drawing():
        loss(model(x)).backward()  # pass 1 draws
    with masks.again():
        loss(model(x + d)).backward()  # passes 2, 3, ... reuse the masks

Two rules work together:

1. *Stream.* A later pass starts with the generators (CPU and every CUDA device) in the state they had at the start of the first pass.
   At its end the generators return to the state they had before it, so after all passes they are where one pass would have left
   them. Everything that draws in the same order gets the same numbers, even where single calls cannot be intercepted: compiled
   regions, scripted modules, C++ operators, the threads of ``nn.DataParallel``, the second forward pass of activation checkpointing.
2. *Calls.* Calls that draw a mask are intercepted one by one (``TorchFunctionMode``), and each is reset to its own state, so that
   additional or missing draws in between do not shift later masks.

   - The *dropout functions* (:data:`DROPOUTS`: ``F.dropout`` and its variants, hence all ``nn.Dropout*``; attention with ``dropout_p``,
     fused or not; ``nn.MultiheadAttention``; recurrent layers with dropout) must be called in the order of the first pass. A pass may
     stop early (a shallow pass does); a different call, or an additional one, raises an error.
   - *Plain draws* (:data:`DRAWS`: ``bernoulli``, ``rand``, ``uniform_`` …), used for other masks (stochastic depth in timm and
     torchvision, custom masks): the j-th call of a given name, shape and dtype repeats the j-th such call of the first pass. A call
     without a counterpart in the first pass draws new numbers. An explicit generator is reset, too.

Not covered: random numbers of NumPy and Python (some models with layer dropping use them); devices other than CPU and CUDA; modules
that store random numbers between passes; ``RReLU`` where the sign of an input changes, because it draws for negative inputs only. Calls
that draw nothing (eval mode, p = 0) are not counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from relearn.maths.cheap_mask import cheap_mask

Signature = tuple[Any, ...]

ATTENTION: Callable[..., Any] = F.scaled_dot_product_attention
_BY_POSITION: frozenset[Callable[..., Any]] = frozenset(
    {
        *(torch.dropout, torch.dropout_, torch.feature_dropout, torch.feature_dropout_, torch.native_dropout),
        *(torch.alpha_dropout, torch.alpha_dropout_),
        *(torch.feature_alpha_dropout, torch.feature_alpha_dropout_),
    }
)
DROPOUTS: frozenset[Callable[..., Any]] = _BY_POSITION | frozenset(
    {
        *(
            F.dropout,
            F.dropout1d,
            F.dropout2d,
            F.dropout3d,
            F.alpha_dropout,
            F.feature_alpha_dropout,
            F.rrelu,
        ),
        *(torch.rrelu, torch.rrelu_),
        *(ATTENTION, F.multi_head_attention_forward, F.gumbel_softmax),
        *(torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu),
        cheap_mask,
    }
)
"""Functions that draw a mask and apply it, and the one that draws the masks of dropout in trainings on a CPU."""

DRAWS: frozenset[Callable[..., Any]] = frozenset(
    {
        *(torch.bernoulli, Tensor.bernoulli, Tensor.bernoulli_, Tensor.uniform_, Tensor.normal_),
        *(Tensor.exponential_, torch.rand, torch.rand_like, torch.randn, torch.randn_like, torch.normal),
        *(torch.randint, torch.randint_like, torch.randperm, torch.multinomial, torch.poisson),
    }
)
"""Functions that only draw."""

DRAWING = DROPOUTS | DRAWS


class MaskReplay:
    """Records the random states of the first pass and replays them in later passes; see the module.

    Args:
        reuse: False disables it: every pass draws its own masks, and the generators advance.
    """

    def __init__(self, reuse: bool = True) -> None:
        self.reuse = reuse
        self._start: list[tuple[torch.Generator, Tensor]] | None = None
        self._calls: list[tuple[Signature, Tensor]] = []
        self._draws: dict[Signature, list[Tensor]] = defaultdict(list)

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Context of the first pass, which draws the masks and records their states, replacing an earlier record."""
        if not self.reuse:
            yield
            return
        self._calls, self._draws = [], defaultdict(list)
        self._start = _states()
        with _Recorder(self._calls, self._draws):
            yield

    @contextmanager
    def again(self) -> Iterator[None]:
        """Context of a later pass, which repeats the masks of the first one and leaves the generators' states unchanged.

        Raises:
            ValueError: there was no first pass, or this pass makes a different dropout call at some position.
        """
        if not self.reuse:
            yield
            return
        if self._start is None:
            raise ValueError("again: found no first pass (allowed: after a pass under drawing())")
        kept = _states()
        try:
            for generator, state in self._start:
                generator.set_state(state)
            with _Player(self._calls, self._draws, kept):
                yield
        finally:
            for generator, state in kept:
                generator.set_state(state)


class _Recorder(TorchFunctionMode):
    """Records the random state before each call that draws."""

    def __init__(self, calls: list[tuple[Signature, Tensor]], draws: dict[Signature, list[Tensor]]) -> None:
        self.calls, self.draws = calls, draws

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # When a compiler traces this, it must see nothing but the call itself.
        if func in DRAWING and not torch.compiler.is_compiling() and _draws(func, args, kwargs or {}):
            signature, generator = _signature(func, args, kwargs or {})
            if generator is not None and func in DROPOUTS:
                self.calls.append((signature, generator.get_state()))
            elif generator is not None:
                self.draws[signature].append(generator.get_state())
        return func(*args, **kwargs) if kwargs else func(*args)


class _Player(TorchFunctionMode):
    """Resets the generator before each call that draws to the state recorded in the first pass."""

    def __init__(
        self,
        calls: list[tuple[Signature, Tensor]],
        draws: dict[Signature, list[Tensor]],
        kept: list[tuple[torch.Generator, Tensor]],
    ) -> None:
        self.calls, self.draws, self.kept = calls, draws, kept
        self.place = 0
        self.places: dict[Signature, int] = defaultdict(int)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in DRAWING and not torch.compiler.is_compiling() and _draws(func, args, kwargs or {}):
            signature, generator = _signature(func, args, kwargs or {})
            if generator is not None:
                state = self.call(signature) if func in DROPOUTS else self.draw(signature)
                if all(generator is not known for known, _ in self.kept):
                    self.kept.append((generator, generator.get_state()))
                if state is not None:
                    generator.set_state(state)
        return func(*args, **kwargs) if kwargs else func(*args)

    def call(self, signature: Signature) -> Tensor:
        place, self.place = self.place, self.place + 1
        if place >= len(self.calls):
            raise ValueError(
                f"dropout call {place + 1}: found {_words(signature)} "
                f"(allowed: {len(self.calls)} calls, as in the first pass)"
            )
        expected, state = self.calls[place]
        if signature != expected:
            raise ValueError(
                f"dropout call {place + 1}: found {_words(signature)} "
                f"(allowed: {_words(expected)}, as in the first pass)"
            )
        return state

    def draw(self, signature: Signature) -> Tensor | None:
        place, states = self.places[signature], self.draws.get(signature, ())
        self.places[signature] += 1
        return states[place] if place < len(states) else None


def _states() -> list[tuple[torch.Generator, Tensor]]:
    """The default generators with their states."""
    generators = [torch.default_generator]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        generators += torch.cuda.default_generators
    return [(generator, generator.get_state()) for generator in generators]


def _draws(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """False if the call certainly draws nothing."""
    if func in DRAWS:
        return True
    if func is ATTENTION:
        return bool((args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)) > 0.0)
    if func in _BY_POSITION:  # (input, p, train)
        kwargs = kwargs | dict(zip(("p", "training"), args[1:3]))
    return bool(kwargs.get("training", True)) and kwargs.get("p", 1.0) != 0.0


def _signature(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Signature, torch.Generator | None]:
    """Signature that two calls must share to draw the same numbers (name, shapes and dtypes of the first tensors, or the size),
    and the generator."""
    tensors = [value for value in args[:2] if isinstance(value, Tensor)]
    tensors = tensors or [value for value in kwargs.values() if isinstance(value, Tensor)][:2]
    name = func.__name__
    if tensors:
        of = [(tensor.shape, tensor.dtype) for tensor in tensors]
        return (name, *of), kwargs.get("generator") or _default(tensors[0].device)
    sizes = [value for value in (*args, kwargs.get("size")) if isinstance(value, int | tuple | list)]
    shape = tuple(tuple(size) if isinstance(size, tuple | list) else size for size in sizes)
    generator = kwargs.get("generator") or _default(kwargs.get("device") or torch.get_default_device())
    return (name, shape, kwargs.get("dtype")), generator


def _default(device: torch.device | str | int) -> torch.Generator | None:
    if not isinstance(device, torch.device):
        device = torch.device(device)
    if device.type == "cpu":
        return torch.default_generator
    if device.type != "cuda":
        return None
    return torch.cuda.default_generators[
        torch.cuda.current_device() if device.index is None else device.index
    ]


def _words(signature: Signature) -> str:
    shape, dtype = signature[1]
    return f"{signature[0]} of {tuple(shape)} {str(dtype).removeprefix('torch.')}"
