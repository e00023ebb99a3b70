r"""One dropout mask for all passes of a step, in any network, without touching its code.

zhu2022, section 3.4, eq. 3.4: the ascent from :math:`\delta_{t-1}` to :math:`\delta_t` and the gradient that follows it should be of
ONE network :math:`f_{\theta(m)}`, so the masks m are drawn once for a minibatch and used in all K passes. The released code stores masks
in its own copies of the models' modules (and, in one of them, of some modules only). Here the *random state* is stored, before each
call that draws a mask, and put back before the same call of a later pass: the same state, shape and dtype draw the same mask. So no
mask is kept in memory, and every module tree will do::

    masks = MaskReplay()
    with masks.drawing():
        loss(model(x)).backward()  # pass 1 draws
    with masks.again():
        loss(model(x + d)).backward()  # pass 2, 3, ... have the same masks

What is covered, by two rules that work together:

1. *The stream.* A later pass begins with the generators (CPU and every CUDA device) as they stood at the beginning of the first, and
   gives them back as it found them: after the passes they stand where one pass has left them. Whatever draws in the same order gets the
   same numbers, also where nobody sees the call: compiled regions, scripted modules, C++ operators, the threads of ``nn.DataParallel``,
   the second forward pass of activation checkpoints.
2. *The call.* Calls that draw a mask are seen one by one (``TorchFunctionMode``) and put back each to its own state, so that draws of
   other kinds in between, more or fewer of them, do not shift the masks behind them.

   - The *dropout functions* (:data:`DROPOUTS`: ``F.dropout`` and its kin, with them all ``nn.Dropout*``; attention with ``dropout_p``,
     fused or not; ``nn.MultiheadAttention``; recurrent layers with dropout) must come in the first pass's order. A pass may stop early (a
     shallow one does); one with another call, or more of them, is refused.
   - *Plain draws* (:data:`DRAWS`: ``bernoulli``, ``rand``, ``uniform_`` …), of which other masks are made (timm's and torchvision's
     stochastic depth, own masks): the j-th call of a name, shape and dtype is the first pass's j-th. One that the first pass did not
     have is drawn freely. A generator given by hand is put back, too.

Not covered: NumPy's and Python's random numbers (some layer-dropping models use them); other devices than CPU and CUDA; a module that
keeps random numbers of its own between the passes; ``RReLU``, which draws for negative inputs only, where an input's sign changes.
Calls that plainly draw nothing (mode of evaluation, p = 0) are not counted.
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
    }
)
"""Functions that draw a mask and use it."""

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
    """See the module.

    Args:
        reuse: False switches it off: every pass draws masks of its own, and the generators move on.
    """

    def __init__(self, reuse: bool = True) -> None:
        self.reuse = reuse
        self._start: list[tuple[torch.Generator, Tensor]] | None = None
        self._calls: list[tuple[Signature, Tensor]] = []
        self._draws: dict[Signature, list[Tensor]] = defaultdict(list)

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """The first pass: draws, and is written down in place of an earlier one."""
        if not self.reuse:
            yield
            return
        self._calls, self._draws = [], defaultdict(list)
        self._start = _states()
        with _Recorder(self._calls, self._draws):
            yield

    @contextmanager
    def again(self) -> Iterator[None]:
        """A later pass: has the first one's masks, and leaves the generators as it found them.

        Raises:
            ValueError: there was no first pass; or this one makes another dropout call than the first one did at that place.
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
    """Writes down the state before each call that draws."""

    def __init__(self, calls: list[tuple[Signature, Tensor]], draws: dict[Signature, list[Tensor]]) -> None:
        self.calls, self.draws = calls, draws

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # A compiler that reads this must see nothing but the call.
        if func in DRAWING and not torch.compiler.is_compiling() and _draws(func, args, kwargs or {}):
            signature, generator = _signature(func, args, kwargs or {})
            if generator is not None and func in DROPOUTS:
                self.calls.append((signature, generator.get_state()))
            elif generator is not None:
                self.draws[signature].append(generator.get_state())
        return func(*args, **kwargs) if kwargs else func(*args)


class _Player(TorchFunctionMode):
    """Puts each call that draws back to the state it had in the first pass."""

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
    """The default generators and their states."""
    generators = [torch.default_generator]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        generators += torch.cuda.default_generators
    return [(generator, generator.get_state()) for generator in generators]


def _draws(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """False where it is plain that the call draws nothing."""
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
    """What must be equal for two calls to draw equally: name, shapes and dtypes of the first tensors (or the size); and the generator."""
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
