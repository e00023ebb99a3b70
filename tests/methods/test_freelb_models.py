"""FreeLB on models of Hugging Face that an engineer brings: where words are looked up, and whose gradient comes out."""

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, embedding

from relearn.measures.virtual_batch import compare
from relearn.methods.embedding_space import EmbeddingSpace, word_embeddings
from relearn.methods.freelb import FreeLB
from relearn.methods.freelb_trainer import FreeLBArguments, FreeLBTrainer

WORDS, WIDTH = 40, 16
SMALL = {"vocab_size": WORDS, "pad_token_id": 1}
BERT = {
    **SMALL,
    "hidden_size": WIDTH,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
T5 = {
    **SMALL,
    "d_model": WIDTH,
    "d_kv": 8,
    "d_ff": 24,
    "num_layers": 1,
    "num_heads": 2,
    "decoder_start_token_id": 0,
}
BART = {**SMALL, "d_model": WIDTH, "max_position_embeddings": 16} | {
    f"{part}_{name}": value
    for part in ("encoder", "decoder")
    for name, value in {"layers": 1, "attention_heads": 2, "ffn_dim": 24}.items()
}
MODELS = {
    "distilbert": ("DistilBert", {**SMALL, "dim": WIDTH, "n_layers": 1, "n_heads": 2, "hidden_dim": 24}),
    "electra": ("Electra", {**BERT, "embedding_size": 12}),
    "gpt2": ("GPT2", {**SMALL, "n_embd": WIDTH, "n_layer": 1, "n_head": 2, "n_positions": 16}),
    "t5": ("T5", T5),
    "t5_encoder": ("T5Encoder", T5),
    "bart": ("Bart", BART),
}


class Answers(nn.Module):
    """Two classes from the mean of a model's states; ``net`` is made of a name of :data:`MODELS`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        kind, sizes = MODELS[name]
        torch.manual_seed(4)
        own = getattr(transformers, f"{kind.removesuffix('Encoder')}Config")(**sizes)
        self.net = getattr(transformers, f"{kind}Model")(own)
        self.out = nn.Linear(WIDTH, 2)

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        given = {"input_ids": tokens, "attention_mask": real}
        if self.net.config.is_encoder_decoder:
            given["decoder_input_ids"] = tokens[:, :3]
        return self.out(self.net(**given).last_hidden_state.mean(1))


def batch() -> tuple[tuple[Tensor, Tensor], Tensor]:
    draws = torch.Generator().manual_seed(2)
    tokens = torch.randint(2, WORDS, (4, 7), generator=draws)
    real = torch.arange(7) < torch.tensor([[3], [7], [5], [6]])
    return (torch.where(real, tokens, 1), real), torch.tensor([0, 1, 1, 0])


def compared(model: nn.Module):
    deltas: list[Tensor] = []
    strategy = FreeLB(passes=3, watch=lambda t, delta: deltas.append(delta.clone()))
    found = compare(strategy, deltas, model.double().train(), cross_entropy, batch(), word_embeddings(model))
    return found, deltas


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_is_that_of_the_virtual_batch(name):
    found, deltas = compared(Answers(name))
    assert found.difference < 1e-12 and found.loss_difference < 1e-12
    assert found.passes == 3 and found.masks > 0 and found.reused
    assert all(bool(delta.any()) for delta in deltas)


@pytest.mark.parametrize("name", ["t5", "t5_encoder", "bart"])
def test_an_encoders_own_module_is_found_and_not_the_place_of_the_weight(name):
    net = Answers(name).net
    table = word_embeddings(net)
    assert table is net.get_encoder().get_input_embeddings() and table.weight is net.shared.weight
    called = []
    for one in (table, net.shared):
        one.register_forward_hook(lambda module, arguments, rows: called.append(module))
    (tokens, real), _ = batch()
    more = {"decoder_input_ids": tokens} if net.config.is_encoder_decoder else {}
    net(input_ids=tokens, attention_mask=real, **more)
    assert called == [table]  # the control: the module that the model tells is never called


class Adapted(nn.Module):
    """A frozen table and a low-rank change of it, whose factors come first among the parameters."""

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.randn(2, table.num_embeddings) / 4)
        self.up = nn.Parameter(torch.randn(table.embedding_dim, 2) / 4)
        self.inner = table.requires_grad_(False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.inner(tokens) + embedding(tokens, self.down.T) @ self.up.T


def test_a_table_in_an_adapter():
    model = Answers("distilbert")
    model.net.set_input_embeddings(Adapted(model.net.get_input_embeddings()))
    found, deltas = compared(model)
    assert found.difference < 1e-12 and deltas[0].shape == (4, 7, WIDTH)


@pytest.mark.parametrize(
    ("module", "found"),
    [
        ("net.transformer", "BaseModelOutput"),
        ("net.embeddings.position_embeddings", r"embeddings \(1, 7, 16\)"),
        ("out", r"embeddings \(4, 2\)"),
    ],
)
def test_a_module_that_looks_no_words_up(module, found):
    """The control is the module around the table, which may be perturbed as well."""
    inputs, labels = batch()
    with pytest.raises(
        ValueError, match=rf"^module: returns {found} \(allowed: \(4, 7, 1?\d\), matching the tokens\)$"
    ):
        FreeLB(space=EmbeddingSpace(module))(Answers("distilbert"), cross_entropy, (inputs, labels))
    around = FreeLB(space=EmbeddingSpace("net.embeddings"))
    assert around(Answers("distilbert"), cross_entropy, (inputs, labels)).isfinite()


def test_the_trainer_trains_an_encoder_with_a_decoder(tmp_path):
    """Plain in the Trainer's own words, and apart from it with a perturbation."""
    (tokens, real), labels = batch()
    tokens = torch.where(tokens == 2, 3, tokens)
    tokens[torch.arange(4), real.sum(1) - 1] = 2  # its classifier reads the state at the one end
    rows = [
        {"input_ids": tokens[row], "attention_mask": real[row].long(), "labels": int(labels[row])}
        for row in range(4)
    ]

    def trained(**settings):
        torch.manual_seed(6)
        net = transformers.T5ForSequenceClassification(
            transformers.T5Config(**T5, num_labels=2, eos_token_id=2, dropout_rate=0.0)
        )
        args = transformers.TrainingArguments(
            tmp_path, max_steps=1, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True
        )
        FreeLBTrainer(model=net, args=args, train_dataset=rows, freelb=FreeLBArguments(**settings)).train()
        return [parameter.detach() for parameter in net.parameters()]

    plain, same, moved = trained(eps=0.0), trained(eps=0.0), trained(passes=2, step_size=1.0, eps=1.0)
    assert all(torch.equal(one, other) for one, other in zip(plain, same, strict=True))
    assert not all(torch.equal(one, other) for one, other in zip(plain, moved, strict=True))
