"""One mask for all passes: what every module of the zoo draws is equal in every pass, and the generator moves as in one."""

from collections import OrderedDict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from relearn import torchvision_schema
from relearn.methods.dropout_masks import DRAWING, MaskReplay

torchvision_schema.declare()
BERNOULLI = torch.ops.aten.bernoulli_.float


class Masks(TorchDispatchMode):
    """Below all modules and functions: every mask that is drawn on a CPU (of fused and of own attention, too)."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if torch.Tag.nondeterministic_seeded in func.tags and isinstance(out, torch.Tensor):
            self.found.append(out.detach().clone())
        return out


class Given(TorchDispatchMode):
    """Gives masks instead of drawing them, each one as often as the batch is larger."""

    def __init__(self, masks):
        super().__init__()
        self.masks = list(masks)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is not BERNOULLI:
            return func(*args, **(kwargs or {}))
        mask = self.masks.pop(0)
        times = len(args[0]) // len(mask)
        return args[0].copy_(mask.repeat(times, *[1] * (mask.dim() - 1)))


class Function(nn.Module):
    def forward(self, x):
        return F.dropout(x.relu() + 1, 0.4) * F.dropout(x, 0.2, self.training)


class Attention(nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.3)


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True)

    def forward(self, x):
        return self.inner(x, x, x)[0]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.LSTM(8, 8, 3, dropout=0.3)

    def forward(self, x):
        return self.inner(x)[0]


class Own(nn.Module):
    def forward(self, x):
        x = x * torch.bernoulli(torch.full_like(x, 0.5)) + (torch.rand_like(x) < 0.3) * x
        x = x * (torch.rand(x.shape[0], 1, 1) < 0.6) + x * torch.empty(8).uniform_().gt(0.5)
        return x * (1 + 0.1 * torch.randn(8)) * torch.full_like(x, 0.5).bernoulli()


class Called(nn.Module):
    """One module, three calls, in a module in a module."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Dropout(0.3)))

    def forward(self, x):
        return self.inner(self.inner(x)) + self.inner[1](x)


def drop_path():
    from timm.layers import DropPath

    return nn.Sequential(DropPath(0.5), nn.Linear(8, 8), DropPath(0.5))


def block_of_timm():
    from timm.models.vision_transformer import Block

    return Block(8, 2, proj_drop=0.1, attn_drop=0.2, drop_path=0.3)


MODULES = {
    "Dropout": lambda: nn.Dropout(0.3),
    "Dropout1d": lambda: nn.Dropout1d(0.3),
    "Dropout2d": lambda: nn.Sequential(nn.Unflatten(-1, (4, 2)), nn.Dropout2d(0.3)),
    "Dropout3d": lambda: nn.Sequential(nn.Unflatten(-1, (2, 2, 2)), nn.Dropout3d(0.3)),
    "AlphaDropout": lambda: nn.AlphaDropout(0.3),
    "FeatureAlphaDropout": lambda: nn.FeatureAlphaDropout(0.3),
    "F.dropout": Function,
    "attention": Attention,
    "MultiheadAttention": Heads,
    "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.2, batch_first=True),
    "LSTM": Recurrent,
    "own": Own,
    "called": Called,
    "DropPath": drop_path,
    "timm": block_of_timm,
}


def hugging_face(family, attention, p=0.2):
    import transformers

    settings = dict(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_labels=2)
    settings |= dict(intermediate_size=24, max_position_embeddings=20, attn_implementation=attention)
    settings |= dict(hidden_dropout_prob=p, attention_probs_dropout_prob=p, classifier_dropout_prob=p)
    config = getattr(transformers, f"{family}Config")(**settings)
    return getattr(transformers, f"{family}ForSequenceClassification")(config).train()


def tokens():
    found = torch.randint(3, 50, (4, 9))
    real = torch.ones_like(found)
    real[0, 6:] = 0
    return {"input_ids": found, "attention_mask": real}


def passes(run, masks, count=3):
    """What each of so many passes of ``run(number)`` draws."""
    found = []
    for number in range(count):
        with masks.again() if number else masks.drawing(), Masks() as drawn:
            run(number)
        found.append(drawn.found)
    return found


def equal(one, other):
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other))


@pytest.mark.parametrize("name", MODULES)
def test_every_pass_has_the_masks_of_the_first_and_the_generator_moves_as_in_one(name):
    torch.manual_seed(0)
    module = MODULES[name]().train()
    inputs = torch.randn(3, 4, 6, 8)
    torch.manual_seed(1)
    module(inputs[0])
    after = torch.get_rng_state()
    torch.manual_seed(1)
    first, *others = passes(lambda number: module(inputs[number]), MaskReplay())
    assert first
    assert all(equal(first, other) for other in others)
    assert torch.equal(torch.get_rng_state(), after)
    same = MaskReplay()
    with same.drawing():
        out = module(inputs[0])
    with same.again():
        assert torch.equal(module(inputs[0]), out)
    # The control: without it each pass draws its own.
    first, *others = passes(lambda number: module(inputs[number]), MaskReplay(reuse=False))
    assert not any(equal(first, other) for other in others)
    assert not torch.equal(module(inputs[0]), out)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("family", ["Roberta", "Albert", "Bert"])
def test_models_of_hugging_face(family, attention, precision):
    torch.manual_seed(0)
    model, batch = hugging_face(family, attention), tokens()
    embeds = model.get_input_embeddings()(batch.pop("input_ids")).detach()

    def run(number):
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            moved = embeds + 0.1 * number
            model(inputs_embeds=moved, labels=torch.tensor([0, 1, 1, 0]), **batch).loss.backward()

    before = torch.get_rng_state()
    run(0)
    after = torch.get_rng_state()
    torch.set_rng_state(before)
    first, *others = passes(run, MaskReplay())
    assert len(first) >= 2 * 3
    assert any(mask.dim() == 4 for mask in first)  # the attention's own
    assert all(equal(first, other) for other in others)
    assert torch.equal(torch.get_rng_state(), after)
    first, *others = passes(run, MaskReplay(reuse=False))
    assert not any(equal(first, other) for other in others)


class Noisy(nn.Module):
    """Dropout with other draws in between, of a kind and number that differ from pass to pass."""

    def __init__(self):
        super().__init__()
        self.number, self.drawn = 0, []

    def noise(self, count):
        self.drawn.append([torch.randn(3), torch.rand(count + 1), torch.randperm(5)] * count)

    def forward(self, x):
        self.noise(self.number)
        x = F.dropout(x, 0.3)
        self.noise(2 - self.number)
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.3) + torch.empty(4, 1, 1).bernoulli_(0.5)


def test_other_draws_between_and_inside_the_passes_shift_no_mask():
    torch.manual_seed(0)
    module, masks = Noisy(), MaskReplay()
    found, states = [], []
    for number in range(3):
        torch.randn(7 * number)  # between
        module.number = number
        states.append(torch.get_rng_state())
        with masks.again() if number else masks.drawing(), Masks() as drawn:
            module(torch.randn(4, 6, 8))
        # randn, rand and randperm are no masks
        found.append([mask for mask in drawn.found if set(mask.unique().tolist()) <= {0.0, 1.0}])
        if number:
            assert torch.equal(torch.get_rng_state(), states[-1])
    assert len(found[0]) == 3
    assert equal(found[0], found[1]) and equal(found[0], found[2])


CALLS = st.lists(st.tuples(st.sampled_from(["dropout", "bernoulli", "randn"]), st.integers(1, 5)), max_size=8)


@settings(max_examples=25)
@given(calls=CALLS, extra=st.lists(st.integers(0, 4), min_size=8, max_size=8), stop=st.integers(0, 8))
def test_masks_are_equal_whatever_else_a_pass_draws_and_wherever_it_stops(calls, extra, stop):
    def run(calls, extra):
        found = []
        for (kind, size), more in zip(calls, extra):
            torch.randn(more, 11)
            if kind == "dropout":
                found.append(F.dropout(torch.ones(size, 30), 0.5))
            else:
                found.append(torch.full((size, 30), 0.5).bernoulli() if kind == "bernoulli" else None)
        return found

    masks = MaskReplay()
    with masks.drawing():
        first = run(calls, [0] * 8)
    after = torch.get_rng_state()
    with masks.again():
        second = run(calls[:stop], extra)
    assert torch.equal(torch.get_rng_state(), after)
    assert all(one is None or torch.equal(one, other) for one, other in zip(first, second))


def test_a_new_step_draws_new_masks():
    """Gradient accumulation: each micro-batch has its own masks."""
    masks, ones = MaskReplay(), torch.ones(100)
    found = []
    for _ in range(2):
        with masks.drawing():
            found.append(F.dropout(ones))
        with masks.again():
            assert torch.equal(F.dropout(ones), found[-1])
    assert not torch.equal(*found)


def layers(*parts):
    return nn.Sequential(OrderedDict((str(number), part) for number, part in enumerate(parts)))


def test_a_shallow_pass_has_the_first_masks_and_the_next_whole_one_all():
    model, masks = layers(nn.Dropout(0.5), nn.Dropout(0.2), nn.Dropout(0.3)), MaskReplay()
    ones = torch.ones(5, 40)
    with masks.drawing(), Masks() as whole:
        model(ones)
    with masks.again(), Masks() as shallow:
        model[:2](ones)
    assert equal(whole.found[:2], shallow.found)
    with masks.again(), Masks() as last:
        model(ones)
    assert equal(whole.found, last.found)


@pytest.mark.parametrize(
    ("pass_two", "found"),
    [
        (lambda x: F.dropout(F.dropout(x)), r"dropout call 2: found dropout of \(3, 4, 6\) float32 \(allowed: scaled"),
        (lambda x: F.dropout(x[:2]), r"dropout call 1: found dropout of \(2, 4, 6\) float32 \(allowed: dropout of \(3, 4, 6\)"),
        (lambda x: F.dropout(x.double()), r"dropout call 1: found dropout of \(3, 4, 6\) float64 \(allowed: dropout"),
        (lambda x: F.dropout(Attention()(F.dropout(x))), r"dropout call 3: found dropout .* \(allowed: 2 calls, as in"),
    ],
)  # fmt: skip
def test_another_call_than_in_the_first_pass_is_refused(pass_two, found):
    masks, x = MaskReplay(), torch.randn(3, 4, 6)
    with masks.drawing():
        Attention()(F.dropout(x))
    before = torch.get_rng_state()
    with pytest.raises(ValueError, match=f"^{found}[^\n]*$"), masks.again():
        pass_two(x)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_call_that_draws_nothing_is_none():
    masks, x = MaskReplay(), torch.randn(3, 4, 6)
    with masks.drawing():
        F.dropout(x)
    with masks.again():
        for off in (nn.Dropout(0.5).eval(), nn.Dropout(0.0)):
            assert torch.equal(off(x), x)
        assert torch.equal(torch.dropout(x, 0.5, False), x)
        F.scaled_dot_product_attention(x, x, x)
        F.dropout(x)


def test_leaky_slopes_drawn_for_negative_entries_are_equal_where_the_signs_are():
    torch.manual_seed(0)
    x, masks = torch.randn(5, 40), MaskReplay()
    with masks.drawing():
        first = nn.RReLU()(x) / x
    with masks.again():
        assert torch.equal(nn.RReLU()(2 * x) / (2 * x), first)


def test_again_without_a_first_pass_is_refused():
    said = r"^again: found no first pass \(allowed: after a pass under drawing\(\)\)$"
    with pytest.raises(ValueError, match=said), MaskReplay().again():
        pass


def test_a_generator_given_by_hand_is_put_back_too():
    own, masks = torch.Generator().manual_seed(3), MaskReplay()
    x = torch.full((50,), 0.5)
    with masks.drawing():
        first = torch.bernoulli(x, generator=own)
    after = own.get_state()
    with masks.again():
        assert torch.equal(torch.bernoulli(x, generator=own), first)
    assert torch.equal(own.get_state(), after)


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpoints_draw_their_masks_again(reentrant):
    torch.manual_seed(0)
    model = layers(*[nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)) for _ in range(3)])
    start = torch.randn(4, 8)

    def gradients(saving):
        torch.manual_seed(5)
        masks, found = MaskReplay(), []
        for number in range(3):
            with masks.again() if number else masks.drawing():
                x = (start + number).requires_grad_()
                out = x
                for part in model:
                    out = checkpoint(part, out, use_reentrant=reentrant) if saving else part(out)
                out.square().sum().backward()
            found.append(x.grad)
        return found, torch.get_rng_state()

    (plain, end), (saved, end_too) = gradients(False), gradients(True)
    assert equal(plain, saved)
    assert torch.equal(end, end_too)


def test_in_a_compiled_model_the_stream_is_replayed():
    torch.manual_seed(0)
    model = torch.compile(
        layers(nn.Linear(8, 8), nn.Dropout(0.5), nn.Tanh(), nn.Dropout(0.5)), backend="eager"
    )
    x, masks = torch.randn(4, 8), MaskReplay()
    outside = nn.Dropout(0.5)
    with masks.drawing():
        first = outside(model(x))
    after = torch.get_rng_state()
    for _ in range(2):
        with masks.again():
            assert torch.equal(outside(model(x)), first)
    assert torch.equal(torch.get_rng_state(), after)
    assert not torch.equal(outside(model(x)), first)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_passes_gradient_is_that_of_the_virtual_batch(attention):
    """Eq. 3.3 and 3.4: mean over K passes = one batch, K times as large, under the masks of the first pass."""
    torch.manual_seed(0)
    model = hugging_face("Roberta", attention).double()
    batch, labels, count = tokens(), torch.tensor([0, 1, 1, 0]), 3
    embeds = model.get_input_embeddings()(batch.pop("input_ids")).detach()
    deltas = 0.3 * torch.randn(count, *embeds.shape, dtype=embeds.dtype)
    weights = [p for p in model.parameters() if p is not model.get_input_embeddings().weight]

    def run(number):
        (model(inputs_embeds=embeds + deltas[number], labels=labels, **batch).loss / count).backward()

    drawn = passes(run, MaskReplay(), count)[0]
    found = [p.grad.clone() for p in weights]
    model.zero_grad()
    real = batch["attention_mask"].repeat(count, 1)
    with Given(drawn):
        virtual = model(
            inputs_embeds=(embeds + deltas).flatten(0, 1), attention_mask=real, labels=labels.repeat(count)
        )
    expected = torch.autograd.grad(virtual.loss, weights)
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    # The control: other masks, another gradient.
    model.zero_grad()
    passes(run, MaskReplay(reuse=False), count)
    largest = max((p.grad - other).abs().max() for p, other in zip(weights, expected))
    assert largest > 1e-3


def test_every_name_of_the_tables_is_a_function_of_torch():
    assert all(callable(one) and one.__name__ for one in DRAWING)


@pytest.mark.gpu
@pytest.mark.parametrize("name", sorted(MODULES))
def test_masks_are_repeated_on_cuda(name):
    torch.manual_seed(0)
    module = MODULES[name]().train().cuda()
    if name == "own":
        pytest.skip("draws on the CPU for an input there")
    x, masks = torch.randn(4, 6, 8, device="cuda"), MaskReplay()
    with masks.drawing():
        first = module(x)
    after = torch.cuda.get_rng_state()
    with masks.again():
        torch.randn(9, device="cuda")
        assert torch.equal(module(x), first)
    assert torch.equal(torch.cuda.get_rng_state(), after)
    assert not torch.equal(module(x), first)
