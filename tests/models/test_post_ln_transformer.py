"""The translation network: torch's own layers as the truth, padding, causality, cached decoding, parameter counts."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from relearn.layers.residual import KINDS
from relearn.models.post_ln_transformer import PostLNTransformer, sinusoids

TINY = dict(dim=8, ffn=12, heads=2, encoder_layers=2, decoder_layers=3)


def tiny(seed: int = 0, **more: object) -> PostLNTransformer:
    """In float64 and eval mode, with every parameter off its start: a zero bias hides a mistake."""
    torch.manual_seed(seed)
    net = PostLNTransformer(11, **{**TINY, **more}).double().eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return net


def sentences(seed: int = 1) -> tuple[Tensor, Tensor]:
    """Two sentences of lengths (5, 3) and targets of lengths (4, 2), padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(3, 11, (2, 5), generator=generator)
    target = torch.randint(3, 11, (2, 4), generator=generator)
    source[1, 3:], target[1, 2:] = 0, 0
    return source, target


def copy_attention(ours: nn.Module, theirs: nn.MultiheadAttention) -> None:
    theirs.in_proj_weight.copy_(torch.cat([ours.q.weight, ours.k.weight, ours.v.weight]))
    theirs.in_proj_bias.copy_(torch.cat([ours.q.bias, ours.k.bias, ours.v.bias]))
    theirs.out_proj.load_state_dict(ours.out.state_dict())


@torch.no_grad()
def truth(net: PostLNTransformer, source: Tensor, target: Tensor) -> Tensor:
    """The same network from torch's TransformerEncoderLayer and TransformerDecoderLayer."""
    dim, sizes = 8, dict(d_model=8, nhead=2, dim_feedforward=12, dropout=0.0, batch_first=True)
    hidden = source == 0

    def embed(tokens: Tensor, table: nn.Embedding) -> Tensor:
        x = torch.zeros(*tokens.shape, dim, dtype=torch.float64)
        for row, t in ((r, t) for r in range(tokens.shape[0]) for t in range(tokens.shape[1])):
            for i in range(dim // 2):
                omega = 10000.0 ** (-i / (dim // 2 - 1))
                x[row, t, i], x[row, t, dim // 2 + i] = math.sin(t * omega), math.cos(t * omega)
            x[row, t] += math.sqrt(dim) * table.weight[tokens[row, t]]
        return x

    memory = embed(source, net.source_embedding)
    for ours in net.encoder:
        layer = nn.TransformerEncoderLayer(**sizes).double().eval()
        copy_attention(ours.self_attention, layer.self_attn)
        for mine, his in (
            (ours.self_residual.norm, layer.norm1),
            (ours.ffn_residual.norm, layer.norm2),
            (ours.ffn.fc1, layer.linear1),
            (ours.ffn.fc2, layer.linear2),
        ):
            his.load_state_dict(mine.state_dict())
        layer.train()  # dropout is 0; torch's fused path of the eval mode cuts the padding off
        memory = layer(memory, src_key_padding_mask=hidden)
    x = embed(target, net.embedding)
    later = torch.ones(target.shape[1], target.shape[1]).triu(1).bool()
    for ours in net.decoder:
        layer = nn.TransformerDecoderLayer(**sizes).double().eval()
        copy_attention(ours.self_attention, layer.self_attn)
        copy_attention(ours.cross_attention, layer.multihead_attn)
        for mine, his in (
            (ours.self_residual.norm, layer.norm1),
            (ours.cross_residual.norm, layer.norm2),
            (ours.ffn_residual.norm, layer.norm3),
            (ours.ffn.fc1, layer.linear1),
            (ours.ffn.fc2, layer.linear2),
        ):
            his.load_state_dict(mine.state_dict())
        x = layer(x, memory, tgt_mask=later, memory_key_padding_mask=hidden)
    return x @ net.embedding.weight.T


def test_equals_torchs_own_layers() -> None:
    net, (source, target) = tiny(), sentences()
    there = target != 0
    # Positions are made in single precision: sin(t) is right to 1e-7, nothing else is rounded.
    torch.testing.assert_close(
        net(source, target)[there], truth(net, source, target)[there], rtol=1e-5, atol=1e-5
    )


def test_a_layer_equals_torchs_to_the_last_digits() -> None:
    net, (source, _) = tiny(), sentences()
    with torch.no_grad():
        x = torch.randn(2, 5, 8, dtype=torch.float64)
        layer = nn.TransformerEncoderLayer(8, 2, 12, 0.0, batch_first=True).double()
        ours = net.encoder[0]
        copy_attention(ours.self_attention, layer.self_attn)
        layer.norm1.load_state_dict(ours.self_residual.norm.state_dict())
        layer.norm2.load_state_dict(ours.ffn_residual.norm.state_dict())
        layer.linear1.load_state_dict(ours.ffn.fc1.state_dict())
        layer.linear2.load_state_dict(ours.ffn.fc2.state_dict())
        expected = layer(x, src_key_padding_mask=source == 0)
    torch.testing.assert_close(ours(x, net.memory_mask(source)), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("residual", KINDS)
def test_padding_changes_nothing(residual: str) -> None:
    net, (source, target) = tiny(residual=residual), sentences()
    wide = torch.cat([source, torch.zeros(2, 3, dtype=torch.long)], 1)
    long = torch.cat([target, torch.zeros(2, 2, dtype=torch.long)], 1)
    alone = net(source[1:, :3], target[1:, :2])
    torch.testing.assert_close(net(wide, long)[1:, :2], alone, rtol=1e-12, atol=1e-12)
    source[1, 3] = 5  # the control: a token instead of padding
    assert not torch.allclose(net(source, target)[1:, :2], alone)


def test_no_logit_sees_a_later_target_token() -> None:
    net, (source, target) = tiny(), sentences()
    before = net(source, target)
    target[0, 2] = 3 + (target[0, 2] - 2) % 8
    after = net(source, target)
    assert torch.equal(after[0, :2], before[0, :2]) and torch.equal(after[1], before[1])
    assert not torch.allclose(after[0, 2], before[0, 2])


@settings(max_examples=12)
@given(
    residual=st.sampled_from(KINDS),
    share=st.sampled_from(["all", "decoder", "none"]),
    seed=st.integers(0, 99),
)
def test_cached_decoding_gives_the_same_logits(residual: str, share: str, seed: int) -> None:
    net, (source, target) = tiny(seed, residual=residual, share=share), sentences(seed)
    target[target == 0] = 4
    cache = net.start(source)
    steps = [net.decode_step(target[:, t], cache) for t in range(4)]
    torch.testing.assert_close(torch.stack(steps, 1), net(source, target), rtol=1e-11, atol=1e-11)


def test_cache_rows_can_be_reordered_and_repeated() -> None:
    net, (source, target) = tiny(), sentences()
    rows = torch.tensor([1, 0, 1])
    cache = net.start(source)
    net.decode_step(target[:, 0], cache)
    cache.select(rows)
    target[target == 0] = 4
    moved = net.decode_step(target[rows, 1], cache)
    torch.testing.assert_close(moved, net(source, target)[rows, 1], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("share", "tables"), [("all", 1), ("decoder", 2), ("none", 3)])
@pytest.mark.parametrize("residual", KINDS)
def test_the_number_of_parameters_is_that_of_the_formula(residual: str, share: str, tables: int) -> None:
    v, d, f, encoder, decoder = 10_000, 512, 1024, 6, 6
    with torch.device("meta"):
        net = PostLNTransformer(v, residual=residual, share=share)
    ffn, norm = 2 * d * f + d + f, 2 * d
    joints = 2 * encoder + 3 * decoder
    each = {"post_ln": norm, "w_skip": norm + d, "rezero": 1, "no_norm": 0}[residual]
    expected = tables * v * d + encoder * (4 * (d * d + d) + ffn) + decoder * (8 * (d * d + d) + ffn)
    assert sum(p.numel() for p in net.parameters()) == expected + joints * each
    normed = residual in ("post_ln", "w_skip")
    assert any(isinstance(m, nn.LayerNorm) for m in net.modules()) == normed


def test_start_is_xavier_with_the_bound_of_the_stacked_map() -> None:
    torch.manual_seed(0)
    net = PostLNTransformer(500, dim=64, ffn=96, heads=2, encoder_layers=1, decoder_layers=1)
    attention, ffn = net.encoder[0].self_attention, net.encoder[0].ffn
    stacked = math.sqrt(6 / (64 + 3 * 64))
    for one, bound in (
        (attention.q, stacked),
        (attention.k, stacked),
        (attention.v, stacked),
        (attention.out, math.sqrt(6 / 128)),
        (ffn.fc1, math.sqrt(6 / 160)),
    ):
        assert bound * 0.98 < float(one.weight.detach().abs().max()) <= bound
        assert not one.bias.any()
    for table in (net.embedding, net.source_embedding):
        assert abs(float(table.weight.detach()[1:].std()) - 64**-0.5) < 0.01 * 64**-0.5
        assert not table.weight[0].any()


def test_the_start_follows_the_seed() -> None:
    starts = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        starts.append(PostLNTransformer(11, **TINY).encoder[1].ffn.fc1.weight)
    assert torch.equal(starts[0], starts[1]) and not torch.equal(starts[0], starts[2])


def test_dropout_acts_in_training_mode_only() -> None:
    net, (source, target) = tiny(), sentences()
    assert torch.equal(net(source, target), net(source, target))
    net.train()
    assert not torch.equal(net(source, target), net(source, target))


def test_positions_are_shifted_by_their_start() -> None:
    like = torch.zeros(1, dtype=torch.float64)
    assert torch.equal(sinusoids(7, 8, like=like)[3:], sinusoids(4, 8, start=3, like=like))


@pytest.mark.parametrize("share", ["all", "decoder"])
def test_embedding_and_output_are_one_tensor(share: str) -> None:
    net, (source, target) = tiny(share=share), sentences()
    net(source, target).square().sum().backward()
    touched = net.embedding.weight.grad.abs().sum(1) > 0
    assert touched.all()  # through the output every word is touched, not the words of the sentence alone


@pytest.mark.parametrize(
    "wrong",
    [
        {"dim": 9},
        {"heads": 3},
        {"decoder_layers": 0},
        {"dropout": 1.0},
        {"activation_dropout": -0.1},
        {"residual": "pre_ln"},
        {"share": "both"},
        {"fixed_w_skip": True},
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(wrong: dict) -> None:
    with pytest.raises(ValueError, match="allowed") as error:
        PostLNTransformer(11, **{**TINY, **wrong})
    assert "\n" not in str(error.value)
