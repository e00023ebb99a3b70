"""In the place of torch's module: the same call, masks and return; inside torch's own Transformer."""

import pytest
import torch
from torch import Tensor, nn

from relearn.layers.attention_kinds import KINDS, attention
from relearn.layers.cross_attention import CrossAttention
from relearn.layers.dot_product_attention import DotProductAttention
from relearn.layers.l2_attention import L2Attention
from relearn.layers.long_short_attention import LongShortAttention
from relearn.layers.multihead import AsMultiheadAttention

LENGTH = 6


def copied(truth: nn.MultiheadAttention) -> DotProductAttention:
    """Ours with the weights of torch's."""
    ours = DotProductAttention(truth.embed_dim, truth.num_heads, bias=True).to(truth.out_proj.weight)
    with torch.no_grad():
        for one, w, b in zip(
            (ours.q, ours.k, ours.v), truth.in_proj_weight.chunk(3), truth.in_proj_bias.chunk(3)
        ):
            one.weight.copy_(w)
            one.bias.copy_(b)
        ours.out.load_state_dict(truth.out_proj.state_dict())
    return ours


def pair(batch_first: bool) -> tuple[AsMultiheadAttention, nn.MultiheadAttention]:
    torch.manual_seed(0)
    truth = nn.MultiheadAttention(12, 3, batch_first=batch_first).double()
    nn.init.normal_(truth.in_proj_bias)
    return AsMultiheadAttention(copied(truth), batch_first=batch_first), truth


def masks() -> dict[str, dict[str, Tensor | bool]]:
    padding = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    later = nn.Transformer.generate_square_subsequent_mask(LENGTH, dtype=torch.float64)
    torch.manual_seed(1)
    whole = (torch.rand(6, LENGTH, LENGTH) < 0.5) & ~torch.eye(LENGTH, dtype=torch.bool)
    return {
        "none": {},
        "padding": {"key_padding_mask": padding},
        "pair": {"attn_mask": whole[0]},
        "heads": {"attn_mask": whole},
        "numbers": {"attn_mask": later},
        "causal": {"attn_mask": later, "is_causal": True},
        "both": {"attn_mask": later.isinf(), "key_padding_mask": padding},
        "numbers of padding": {"key_padding_mask": torch.zeros(2, LENGTH, dtype=torch.float64)},
    }


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("which", list(masks()))
def test_equals_torchs_module(batch_first: bool, which: str) -> None:
    ours, truth = pair(batch_first)
    x = torch.randn(2, LENGTH, 12, dtype=torch.float64)
    x = x if batch_first else x.transpose(0, 1)
    for more in ({}, {"average_attn_weights": False}, {"need_weights": False}):
        (y, w), (expected, weights) = (one(x, x, x, **masks()[which], **more) for one in (ours, truth))
        torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)
        assert (w is None) == (weights is None)
        if w is not None:
            torch.testing.assert_close(w, weights, rtol=1e-12, atol=1e-12)


def test_one_sequence_is_treated_as_torchs_module_does() -> None:
    ours, truth = pair(True)
    x = torch.randn(LENGTH, 12, dtype=torch.float64)
    hidden = torch.tensor([False] * 5 + [True])
    for given in ({}, {"key_padding_mask": hidden}, {"attn_mask": masks()["heads"]["attn_mask"][:3]}):
        for found, expected in zip(ours(x, x, x, **given), truth(x, x, x, **given)):
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    (y, _), (later, _) = ours(x, x, x, is_causal=True), ours(x, x, x)
    assert torch.equal(y, ours.layer(x, causal=True)) and not torch.allclose(y, later)


@pytest.mark.parametrize("training", [True, False])
def test_inside_torchs_encoder(training: bool) -> None:
    """The layer's own attention replaced by ours with its weights: the same numbers, in evaluation too, where torch has a short cut."""
    torch.manual_seed(0)
    sizes = {"d_model": 12, "nhead": 2, "dim_feedforward": 24, "dropout": 0.0, "batch_first": True}
    truth = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**sizes), num_layers=2, enable_nested_tensor=False
    )
    ours = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**sizes), num_layers=2, enable_nested_tensor=False
    )
    ours.load_state_dict(truth.state_dict())
    for layer in ours.layers:
        layer.self_attn = AsMultiheadAttention(copied(layer.self_attn), batch_first=True)
    truth, ours = (one.double().train(training) for one in (truth, ours))
    x = torch.randn(2, LENGTH, 12, dtype=torch.float64)
    padding = masks()["padding"]["key_padding_mask"]
    later = nn.Transformer.generate_square_subsequent_mask(LENGTH, dtype=torch.float64)
    with torch.inference_mode(not training):
        for given in (
            {},
            {"src_key_padding_mask": padding},
            {"mask": later},
            {"mask": later, "is_causal": True},
        ):
            torch.testing.assert_close(ours(x, **given), truth(x, **given), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_runs_in_torchs_encoder(kind: str) -> None:
    torch.manual_seed(0)
    block = nn.TransformerEncoderLayer(12, 3, 24, dropout=0.0, batch_first=True)
    layer = attention(kind, 12, 3)
    block.self_attn = AsMultiheadAttention(layer, batch_first=True)
    x = torch.randn(2, LENGTH, 12)
    expected = block.norm1(x + layer(x))
    torch.testing.assert_close(block(x), block.norm2(expected + block._ff_block(expected)))
    block(x).sum().backward()
    assert all(one.grad is not None for one in layer.parameters())
    with torch.inference_mode():
        torch.testing.assert_close(block.eval()(x), block.train()(x))


def test_wrong_arguments_are_refused() -> None:
    ours, _ = pair(True)
    x = torch.randn(2, LENGTH, 12, dtype=torch.float64)
    with pytest.raises(ValueError, match="this is self-attention"):
        ours(x, x.clone(), x)
    with pytest.raises(ValueError, match="this is self-attention"):
        ours(x, x, x.clone())
    for name, wrong in (
        ("key_padding_mask", torch.zeros(2, 5, dtype=torch.bool)),
        ("key_padding_mask", torch.zeros(6, dtype=torch.bool)),
        ("attn_mask", torch.zeros(3, LENGTH, LENGTH, dtype=torch.bool)),
    ):
        with pytest.raises(ValueError, match=rf"{name}: shape .*allowed"):
            ours(x, x, x, **{name: wrong})
    with pytest.raises(ValueError, match="attn_mask: numbers other than 0 and -inf"):
        ours(x, x, x, attn_mask=torch.full((LENGTH, LENGTH), 0.5))
    blind = torch.zeros(2, LENGTH, dtype=torch.bool)
    blind[1] = True
    with pytest.raises(ValueError, match="row 0 of sequence 1, head 0, sees nothing"):
        ours(x, x, x, key_padding_mask=blind)


@pytest.mark.parametrize("norm", ["inf", "two"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_enters_a_contractive_layer(norm: str, side: str) -> None:
    """Rows that are padding see themselves: real rows are those of the sequence without padding, for the bound of N tokens."""
    torch.manual_seed(0)
    layer = L2Attention(12, 3, contractive=norm, max_length=LENGTH, masked=True).double().eval()
    block = nn.TransformerEncoderLayer(12, 3, 24, dropout=0.0, batch_first=True).double().eval()
    block.self_attn = AsMultiheadAttention(layer, batch_first=True)
    x = torch.randn(2, LENGTH, 12, dtype=torch.float64)
    real = slice(0, 4) if side == "right" else slice(2, LENGTH)
    padding = torch.ones(2, LENGTH, dtype=torch.bool)
    padding[0], padding[1, real] = False, False
    y = block(x, src_key_padding_mask=padding)
    torch.testing.assert_close(y[1, real], block(x[1:, real])[0])
    torch.testing.assert_close(y[0], block(x[:1])[0])
    _, weights = block.self_attn(x, x, x, key_padding_mask=padding)
    padded = weights[1][:, padding[1]]  # the columns of padding: nothing but their own rows looks at them
    own = torch.eye(LENGTH, dtype=torch.bool)[:, padding[1]]
    assert (padded[own] > 0).all() and (padded[~own] == 0).all()
    huge = x.clone()
    huge[1, padding[1]] = 1e6
    assert torch.equal(block(huge, src_key_padding_mask=padding)[1, real], y[1, real])
    everything = torch.ones(2, LENGTH, dtype=torch.bool)
    assert block.self_attn(x, x, x, key_padding_mask=everything)[0].isfinite().all()


def test_padding_keeps_the_constant_of_a_contractive_layer() -> None:
    torch.manual_seed(0)
    layer = L2Attention(4, 2, contractive="inf", fused=False).double().eval()
    with torch.no_grad():
        layer.q.weight.mul_(3)
    ours = AsMultiheadAttention(layer, batch_first=True)
    padding = torch.tensor([False, False, True, True])
    for scale in (0.1, 1.0, 3.0):
        x = scale * torch.randn(4, 4, dtype=torch.float64)
        jacobian = torch.func.jacrev(lambda z: ours(z, z, z, key_padding_mask=padding)[0])(x).view(16, 16)
        assert 0 < jacobian.abs().sum(1).max() <= 1


def test_a_real_token_hidden_from_itself_is_still_refused() -> None:
    ours = AsMultiheadAttention(L2Attention(12, 3, contractive="inf"), batch_first=True)
    x = torch.randn(2, LENGTH, 12)
    padding = torch.zeros(2, LENGTH, dtype=torch.bool)
    padding[:, -1] = True
    mask = torch.eye(LENGTH, dtype=torch.bool)
    with pytest.raises(ValueError, match="token 0 of sequence 0, head 0, is hidden from itself"):
        ours(x, x, x, key_padding_mask=padding, attn_mask=mask)


@pytest.mark.parametrize("batch_first", [False, True])
def test_cross_attention_equals_torchs_module(batch_first: bool) -> None:
    torch.manual_seed(0)
    truth = nn.MultiheadAttention(12, 3, kdim=5, vdim=7, batch_first=batch_first).double()
    nn.init.normal_(truth.in_proj_bias)
    layer = CrossAttention(12, 3, kdim=5, vdim=7, bias=True).double()
    with torch.no_grad():
        weights = (truth.q_proj_weight, truth.k_proj_weight, truth.v_proj_weight)
        for one, w, b in zip((layer.q, layer.k, layer.v), weights, truth.in_proj_bias.chunk(3)):
            one.weight.copy_(w)
            one.bias.copy_(b)
        layer.out.load_state_dict(truth.out_proj.state_dict())
    ours = AsMultiheadAttention(layer, batch_first=batch_first)
    assert (ours.kdim, ours.vdim, ours.dropout) == (5, 7, 0.0)
    x, y, z = (torch.randn(2, n, d, dtype=torch.float64) for n, d in ((4, 12), (LENGTH, 5), (LENGTH, 7)))
    if not batch_first:
        x, y, z = (one.transpose(0, 1) for one in (x, y, z))
    padding = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    pairs = torch.rand(6, 4, LENGTH) < 0.3
    pairs[..., 0] = False
    for given in ({}, {"key_padding_mask": padding}, {"attn_mask": pairs}, {"attn_mask": pairs[0]}):
        for found, expected in zip(ours(x, y, z, **given), truth(x, y, z, **given), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    single = [one[0] if batch_first else one[:, 0] for one in (x, y, z)]
    for found, expected in zip(ours(*single), truth(*single), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_inside_torchs_decoder() -> None:
    torch.manual_seed(0)
    block = nn.TransformerDecoderLayer(12, 3, 24, dropout=0.0, batch_first=True)
    block.self_attn = AsMultiheadAttention(L2Attention(12, 3), batch_first=True)
    block.multihead_attn = AsMultiheadAttention(
        CrossAttention(12, 3, logits="l2", kdim=8, vdim=8), batch_first=True
    )
    x, memory = torch.randn(2, LENGTH, 12), torch.randn(2, 9, 8)
    later = nn.Transformer.generate_square_subsequent_mask(LENGTH)
    y = block(
        x,
        memory,
        tgt_mask=later,
        tgt_is_causal=True,
        memory_key_padding_mask=torch.arange(9).expand(2, 9) > 6,
    )
    y[:, 2].sum().backward()
    changed = memory.clone()
    changed[:, 7:] += 1
    padding = torch.arange(9).expand(2, 9) > 6
    torch.testing.assert_close(block(x, changed, later, memory_key_padding_mask=padding), y)


def test_a_layer_with_other_masks_is_refused():
    with pytest.raises(TypeError, match=r"^layer: found LongShortAttention \(allowed: DotProductAttention, "):
        AsMultiheadAttention(LongShortAttention(16, 4))
