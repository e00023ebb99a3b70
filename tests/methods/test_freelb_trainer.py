"""FreeLB in transformers' Trainer: the Trainer itself where nothing is perturbed, fit's FreeLB where something is."""

import contextlib
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

import accelerate
import pytest
import torch
import transformers
from torch.nn.functional import cross_entropy

from relearn.methods.cheap_dropout import cheap_masks
from relearn.methods.dropout_masks import MaskReplay
from relearn.methods.fit import fit
from relearn.methods.freelb import FreeLB
from relearn.methods.freelb_trainer import FreeLBArguments, FreeLBTrainer, _Field
from relearn.methods.pixel_space import PixelSpace

logging.getLogger("accelerate").setLevel(logging.ERROR)
SETTINGS = dict(passes=3, step_size=0.2, eps=0.5, start_norm=0.3)


def model(dropout=0.2, labels=2, seed=0, kind="ForSequenceClassification", family="Roberta", **more):
    torch.manual_seed(seed)
    shape = dict(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_labels=labels)
    shape |= dict(intermediate_size=24, max_position_embeddings=20, hidden_dropout_prob=dropout)
    config = getattr(transformers, f"{family}Config")(**shape, attention_probs_dropout_prob=dropout, **more)
    return getattr(transformers, family + kind)(config)


def data(count=16, regression=False, padding=True, candidates=0):
    draws = torch.Generator().manual_seed(3)
    found = []
    for row in range(count):
        ids = torch.randint(3, 50, (*([candidates] if candidates else []), 9), generator=draws)
        real = torch.ones_like(ids)
        if padding and row % 3 == 0:
            ids[..., 6:], real[..., 6:] = 1, 0
        label = float(row) / count if regression else row % (candidates or 2)
        found.append({"input_ids": ids, "attention_mask": real, "labels": label})
    return found


def trained(folder, trainer=FreeLBTrainer, net=None, rows=None, *, of=None, watch=None, **settings):
    """A trainer after its training; the parameters from its model."""
    defaults = dict(learning_rate=1e-2, max_steps=2, per_device_train_batch_size=4, optim="adamw_torch")
    defaults |= dict(max_grad_norm=0.0, lr_scheduler_type="constant", logging_steps=1, save_strategy="no")
    settings = defaults | settings
    args = transformers.TrainingArguments(
        folder, use_cpu=True, report_to=[], disable_tqdm=True, seed=7, dataloader_pin_memory=False, **settings
    )
    own = {} if of is None else {"freelb": FreeLBArguments(**of, watch=watch)}
    net = net if net is not None else model()
    made = trainer(model=net, args=args, train_dataset=rows if rows is not None else data(), **own)
    made.train()
    return made


def weights(trainer):
    return [p.detach().clone() for p in trainer.model.parameters()]


def equal(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def losses(trainer):
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]


PLAIN = [
    dict(eps=0.0, passes=3, step_size=0.1),
    dict(eps=0.5, passes=1, step_size=0.1, start_norm=0.0),
    dict(eps=None, project=False, passes=3, step_size=0.0, start_norm=0.0),
    dict(eps=0.5, passes=1, step_size=0.1, clean_first=True),
]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("plain"), transformers.Trainer)


@pytest.mark.parametrize("of", PLAIN)
def test_without_a_perturbation_it_is_the_trainer_bit_for_bit(tmp_path, plain, of):
    found = trained(tmp_path, of=of)
    assert equal(weights(plain), weights(found))
    assert losses(plain) == losses(found)


def test_with_a_perturbation_it_is_not(tmp_path, plain):
    assert not equal(weights(plain), weights(trained(tmp_path, of=SETTINGS)))


@pytest.mark.parametrize(
    "more",
    [
        dict(bf16=True),
        dict(label_smoothing_factor=0.1),
        dict(gradient_accumulation_steps=2, max_grad_norm=0.1),
    ],
)
def test_a_tiny_perturbation_changes_little_with_any_trainer_setting(tmp_path, more):
    """Without dropout: K passes around one point are the plain step, whatever loss, precision and clipping are."""
    of = SETTINGS | dict(step_size=1e-9, eps=1e-8, start_norm=1e-8)
    # SGD, so that a gradient of another length would show
    more |= dict(optim="sgd", learning_rate=1.0, max_steps=3)
    plain = trained(tmp_path, transformers.Trainer, model(0.0), **more)
    found = trained(tmp_path, net=model(0.0), of=of, **more)
    tolerance = 2e-2 if "bf16" in more else 1e-5
    for one, other in zip(weights(plain), weights(found), strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(losses(plain), losses(found), rtol=tolerance, atol=tolerance)
    moved = max((one - other).abs().max() for one, other in zip(weights(found), model(0.0).parameters()))
    assert moved > 5 * tolerance


class Told(FreeLBTrainer):
    """Writes down its batches, and the random state before each."""

    def training_step(self, net, inputs, *more):
        self.told = [*getattr(self, "told", []), (inputs, torch.get_rng_state())]
        with cheap_masks([net]):  # those of fit
            return super().training_step(net, inputs, *more)


class Batches:
    """The batches of a Trainer, for fit, each with its random state."""

    def __init__(self, told):
        self.told, self.batches_per_epoch = told, len(told)

    def epoch(self, generator):
        for batch, state in self.told:
            torch.set_rng_state(state)
            yield (batch["input_ids"], batch["attention_mask"].bool()), batch["labels"]


class Net(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, tokens, real):
        return self.inner(input_ids=tokens, attention_mask=real).logits


@pytest.mark.parametrize(
    ("family", "more"),
    [
        ("Roberta", {}),
        ("Roberta", dict(reuse_masks=False)),
        ("Bert", dict(clean_first=True, mask="start")),
        ("Albert", dict(norm="linf", project=False)),
    ],
)
def test_it_trains_to_the_parameters_of_fit_with_freelb(tmp_path, family, more):
    """The same batches in the same order, with dropout and clipping."""
    of = SETTINGS | more
    found = trained(
        tmp_path,
        Told,
        model(family=family),
        of=of,
        optim="sgd",
        learning_rate=0.1,
        max_grad_norm=0.05,
        max_steps=4,
    )
    net = Net(model(family=family))
    optimiser = dict(
        optimizer="sgd", lr=0.1, momentum=0.0, nesterov=False, schedule="constant", clip_norm=0.05
    )
    fit(net, Batches(found.told), loss=cross_entropy, epochs=1, gradient=FreeLB(**of), **optimiser)
    for one, other in zip(weights(found), net.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
    assert not equal(weights(found), model(family=family).parameters())


def mean_loss():
    """Without dropout, and with the Trainer configured for a model loss that is a mean over the micro-batch."""
    net = model(0.0)
    net.accepts_loss_kwargs = False
    return net


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_accumulated_micro_batches_are_one_large_batch(tmp_path, smoothing):
    """Without dropout, from zero: a sample's δ depends on no other sample, and its step not on the loss's scale."""
    more = dict(optim="sgd", learning_rate=0.5, of=SETTINGS | dict(start_norm=0.0), max_steps=2)
    found = []
    for size in (8, 2):
        # The smoothed loss knows the number of all items.
        net = model(0.0) if smoothing else mean_loss()
        counts = dict(per_device_train_batch_size=size, gradient_accumulation_steps=8 // size)
        found.append(trained(tmp_path, net=net, label_smoothing_factor=smoothing, **counts, **more))
    large, small = found
    for one, other in zip(weights(large), weights(small), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    assert not equal(weights(large), model(0.0).parameters())
    torch.testing.assert_close(losses(large), losses(small), rtol=1e-4, atol=1e-4)


def one_step(folder, net, rows, trainer=Told, **more):
    """δ of each pass, the batch, and the gradient (by one step of SGD) of a float64 model without dropout."""
    seen, start = [], {name: p.detach().clone() for name, p in net.named_parameters()}
    found = trained(
        folder, trainer, net, rows, watch=lambda t, delta: seen.append(delta), max_steps=1, optim="sgd",
        learning_rate=1.0, of=SETTINGS, **more,
    )  # fmt: skip
    gradient = {name: start[name] - p.detach() for name, p in found.model.named_parameters()}
    found.model.load_state_dict(start, strict=False)
    return seen, found, gradient


def expected(net, batch, seen, loss):
    """Autograd on the mean of ``loss(outputs)`` over the δ, added to the words by a hook."""
    total = 0.0
    for delta in seen:
        handle = net.get_input_embeddings().register_forward_hook(lambda m, a, rows, d=delta: rows + d)
        total = total + loss(net(**batch)) / len(seen)
        handle.remove()
    names, parameters = zip(*net.named_parameters(), strict=True)
    found = torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)
    return total, dict(zip(names, found, strict=True))


def squares(outputs, labels, num_items_in_batch=None):
    return (outputs["logits"].squeeze(-1) - labels).square().mean() * 2


CASES = {
    "regression": (dict(labels=1), dict(regression=True), lambda out: out.loss),
    "classes": (dict(labels=2), dict(), lambda out: out.loss),
    "candidates": (dict(kind="ForMultipleChoice"), dict(candidates=3), lambda out: out.loss),
}


@pytest.mark.parametrize("case", CASES)
def test_the_gradient_is_autograds_at_the_perturbations_which_stay_in_their_balls(tmp_path, case):
    of_model, of_data, loss = CASES[case]
    net = model(0.0, **of_model).double()
    seen, found, gradient = one_step(tmp_path, net, data(4, **of_data))
    (batch, _), *_ = found.told
    value, wanted = expected(net, batch, seen, loss)
    for name, one in wanted.items():
        torch.testing.assert_close(gradient[name], one, rtol=1e-8, atol=1e-10)
    assert losses(found)[0] == pytest.approx(float(value.detach()), abs=1e-4)
    assert len(seen) == SETTINGS["passes"] and not torch.equal(seen[0], seen[1])
    padding = ~batch["attention_mask"].bool().flatten(0, -2)
    for delta in seen:
        assert padding.any() and float(delta[padding].abs().max()) == 0.0
        # one ball a sample: all candidates of a question share it
        assert bool((delta.reshape(4, -1).norm(dim=1) <= SETTINGS["eps"] * (1 + 1e-6)).all())


def test_a_loss_of_ones_own_is_shared_among_the_passes_too(tmp_path):
    """An overridden compute_loss that never asks the Trainer's."""

    class Own(Told):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            return squares(model(input_ids=inputs["input_ids"]), inputs["labels"])

    net = model(0.0, labels=1).double()
    seen, found, gradient = one_step(tmp_path, net, data(4, regression=True, padding=False), Own)
    (batch, _), *_ = found.told
    labels = batch.pop("labels")
    _, wanted = expected(net, batch, seen, lambda out: squares(out, labels))
    for name, one in wanted.items():
        torch.testing.assert_close(gradient[name], one, rtol=1e-8, atol=1e-10)


def test_a_resumed_training_is_the_uninterrupted_one(tmp_path):
    whole = trained(tmp_path / "a", of=SETTINGS, max_steps=4, save_strategy="steps", save_steps=2)
    args = whole.args
    args.output_dir = str(tmp_path / "b")
    again = FreeLBTrainer(
        model=model(seed=9), args=args, train_dataset=data(), freelb=FreeLBArguments(**SETTINGS)
    )
    again.train(resume_from_checkpoint=str(tmp_path / "a/checkpoint-2"))
    assert equal(weights(whole), weights(again))


def test_masks_are_drawn_once_a_micro_batch(tmp_path, monkeypatch):
    found = []
    for name in ("drawing", "again"):
        kept = getattr(MaskReplay, name)
        monkeypatch.setattr(
            MaskReplay, name, lambda self, name=name, kept=kept: found.append(name) or kept(self)
        )
    trained(tmp_path, of=SETTINGS, max_steps=1, gradient_accumulation_steps=2)
    assert found == ["drawing", "again", "again"] * 2


def test_processes_sum_their_gradients_in_the_last_pass_alone(tmp_path, monkeypatch):
    """Which backward passes are made inside of the accelerator's no_sync."""
    quiet, seen = [], []

    @contextlib.contextmanager
    def no_sync(self, model):
        quiet.append(model)
        yield
        quiet.pop()

    whole = accelerate.Accelerator.backward

    def backward(self, loss, **kwargs):
        seen.append(bool(quiet))
        return whole(self, loss, **kwargs)

    monkeypatch.setattr(accelerate.Accelerator, "no_sync", no_sync)
    monkeypatch.setattr(accelerate.Accelerator, "backward", backward)
    trained(tmp_path, of=SETTINGS, max_steps=2)
    assert seen == [True, True, False] * 2


def test_a_gradient_that_is_not_finite_is_counted_and_logged(tmp_path):
    net = model(0.0)
    torch.nn.init.constant_(net.classifier.out_proj.weight, float("nan"))
    found = trained(tmp_path, net=net, of=SETTINGS, max_steps=1)
    assert found.skipped_count == 4 * 2
    assert found.state.log_history[0]["skipped_count"] == 8


def test_replicas_get_the_part_of_delta_of_their_rows():
    """nn.DataParallel scatters the samples in chunks, here over a CPU and torch's device without memory."""
    tokens, devices = torch.ones(5, 2, 3, dtype=torch.long), [torch.device("cpu"), torch.device("meta")]
    field = _Field(torch.nn.Identity(), tokens, torch.nn.Embedding(4, 6), devices)
    delta = torch.randn(10, 3, 6)
    rows = torch.ones(6, 3, 6)
    with field.moved(delta):
        first = field.hook(field.table, (), rows)
        second = field.hook(field.table, (), torch.ones(4, 3, 6, device="meta"))
    assert torch.equal(first, rows + delta[:6])
    assert second is not None and second.device.type == "meta"
    assert first is not None
    first.sum().backward()
    assert torch.equal(field.gradient(), torch.cat([torch.ones(6, 3, 6), torch.zeros(4, 3, 6)]))
    assert field.hook(field.table, (), rows) is None


def test_outside_of_a_step_nothing_is_perturbed(tmp_path):
    found = trained(tmp_path, of=SETTINGS, max_steps=1)
    assert not found.model.get_input_embeddings()._forward_hooks
    assert "backward" not in vars(found.accelerator)


class Blind(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 2)

    def forward(self, input_ids, labels):
        return {"loss": self.inner(input_ids.float()[:, :3]).sum()}


REFUSALS = {
    "embeddings": (dict(net=Blind()), r"model: Blind has no input embeddings \(allowed: .*\)"),
    "optim": (dict(optim="lomo"), r"optim: found .* \(allowed: not with FreeLBTrainer\)"),
    "compile": (dict(torch_compile=True), r"torch_compile: found True \(allowed: not with FreeLBTrainer\)"),
    "tokens": (
        dict(rows=[{"inputs_embeds": torch.randn(4, 16), "labels": 0}] * 4),
        r"input_ids: missing among .* \(allowed: tokens, whose embeddings are perturbed\)",
    ),
    "mask": (
        dict(
            rows=[{"input_ids": torch.ones(4).long(), "attention_mask": torch.ones(1, 4, 4), "labels": 0}] * 4
        ),
        r"attention_mask: found shape \(4, 1, 4, 4\) \(allowed: \(4, 4\), as input_ids\)",
    ),
    "padding": (
        dict(rows=[{"input_ids": torch.ones(4).long(), "attention_mask": torch.zeros(4), "labels": 0}] * 4),
        r"attention_mask: sample 0 is all padding \(allowed: .*\)",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_is_refused_in_a_line(tmp_path, name):
    settings, said = REFUSALS[name]
    with pytest.raises(ValueError, match=f"^{said}$"):
        trained(tmp_path, of=SETTINGS, **settings)


def test_fsdp_is_refused_in_a_line(tmp_path, monkeypatch):
    """Its parameters are gathered for one pass at a time; the accelerator's own state would want several processes."""
    make = FreeLBTrainer.create_accelerator_and_postprocess

    def sharded(self):
        make(self)
        self.is_fsdp_enabled = True

    monkeypatch.setattr(FreeLBTrainer, "create_accelerator_and_postprocess", sharded)
    with pytest.raises(ValueError, match=r"^fsdp: found True \(allowed: not with FreeLBTrainer\)$"):
        trained(tmp_path, of=SETTINGS)


def test_settings_are_freelbs():
    with pytest.raises(ValueError, match=r"^passes: found 0 \(allowed: .*\)$"):
        FreeLBArguments(passes=0)
    with pytest.raises(ValueError, match=r"^space: found PixelSpace \(allowed: EmbeddingSpace, .*\)$"):
        FreeLBArguments(space=PixelSpace())
    own, strategy = FreeLBArguments(), FreeLB()
    assert {key: getattr(own, key) for key in FreeLB.__dataclass_fields__} == {
        key: getattr(strategy, key) for key in FreeLB.__dataclass_fields__
    }


PROCESS = """
import sys
import torch
sys.path.insert(0, sys.argv[1])
import test_freelb_trainer as tests
found = tests.trained(sys.argv[2], net=tests.mean_loss(), **tests.PARALLEL, per_device_train_batch_size=4, ddp_backend="gloo")
assert found.args.world_size == 2 and type(found.model_wrapped).__name__ == "DistributedDataParallel"
if found.args.process_index == 0:
    torch.save([tests.weights(found), tests.losses(found)], sys.argv[2] + "/found.pt")
"""
PARALLEL = dict(of=SETTINGS | dict(start_norm=0.0), optim="sgd", learning_rate=0.5)


@pytest.mark.slow
def test_two_processes_train_as_one_with_twice_the_batch(tmp_path):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    shared = os.environ | dict(
        WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1"
    )
    command = [sys.executable, "-c", PROCESS, str(Path(__file__).parent), str(tmp_path)]
    running = [
        subprocess.Popen(command, env=shared | dict(RANK=str(rank), LOCAL_RANK=str(rank))) for rank in (0, 1)
    ]
    assert [process.wait(300) for process in running] == [0, 0]
    found, values = torch.load(tmp_path / "found.pt", weights_only=True)
    alone = trained(tmp_path, net=mean_loss(), **PARALLEL, per_device_train_batch_size=8)
    for one, other in zip(weights(alone), found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    assert not equal(found, model(0.0).parameters())
    torch.testing.assert_close(losses(alone), values, rtol=1e-4, atol=1e-4)
