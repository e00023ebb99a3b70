"""The function ``freelb``, the settings and the Trainer refuse in a line what they cannot do, and tell what they left out."""

import dataclasses

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.methods.adversarial_training import AdversarialGradient
from relearn.methods.free_at import FreeAT
from relearn.methods.freelb import FreeLB, freelb
from relearn.methods.freelb_trainer import FreeLBTrainer, _check_ids
from relearn.methods.perturbation import Ball
from relearn.methods.pgd_training import PGDTraining
from relearn.methods.pixel_space import PixelSpace

TABLE, OUT = nn.Embedding(9, 4), nn.Linear(4, 2)
IDS, LABELS = torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([0, 1])


def right(inputs_embeds):
    return cross_entropy(OUT(inputs_embeds.mean(1)), LABELS)


REFUSED = {
    "none": (lambda inputs_embeds: None, "loss: returns NoneType"),
    "a loss a sample": (lambda inputs_embeds: inputs_embeds.sum((1, 2)), r"loss: returns shape \(2,\)"),
    "a number": (lambda inputs_embeds: 0.5, "loss: returns float"),
    "other embeddings": (lambda inputs_embeds: right(TABLE(IDS)), "loss: does not depend on the embeddings"),
    "no graph": (lambda inputs_embeds: right(inputs_embeds).detach(), "loss: has no gradient"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("eps", [0.3, 0.0])
def test_a_loss_that_cannot_be_perturbed_is_refused(name, eps):
    if name == "other embeddings" and eps == 0:
        return  # plain training of another loss is plain training
    loss, said = REFUSED[name]
    with pytest.raises(ValueError, match=rf"^{said} \(allowed: .*\)$"):
        freelb(loss, TABLE(IDS), passes=2, eps=eps)
    assert freelb(right, TABLE(IDS), passes=2, eps=eps).isfinite()


def test_a_loss_that_does_not_see_the_images():
    other = nn.Parameter(torch.ones(()))
    strategy = FreeLB(space=PixelSpace(), norm="linf", passes=2)
    with pytest.raises(ValueError, match=r"^loss: does not depend on the images \(allowed: .*\)$"):
        strategy(OUT, lambda said, labels: other * 2, (torch.rand(2, 4), LABELS))


def test_ids_in_the_place_of_embeddings_are_refused():
    with pytest.raises(ValueError, match=r"^inputs_embeds: found torch.int64 \(allowed: .*\)$"):
        freelb(right, IDS)


def test_padding_is_told_by_the_arguments_own_name():
    mask = torch.tensor([[1, 1, 0], [0, 0, 0]])
    with pytest.raises(ValueError, match=r"^attention_mask: sample 1 is all padding \(allowed: .*\)$"):
        freelb(right, TABLE(IDS), mask)


@pytest.mark.parametrize(("factor", "count"), [(1.0, 0), (float("nan"), 2 * 2)])
def test_what_was_omitted_is_reported(factor, count):
    """Two samples, two ascents of three passes."""
    told = []
    freelb(lambda inputs_embeds: right(inputs_embeds) * factor, TABLE(IDS), passes=3, skipped=told.append)
    freelb(lambda inputs_embeds: right(inputs_embeds) * factor, TABLE(IDS), eps=0.0, skipped=told.append)
    assert told == [count, 0]


@pytest.mark.parametrize("key", ["eps", "step_size", "start_norm"])
@pytest.mark.parametrize("value", ["1e-3", True, [0.1], complex(1)])
def test_settings_that_are_no_numbers(key, value):
    settings = {"eps": 0.3, "step_size": 0.1, key: value}
    with pytest.raises(ValueError, match=rf"^{key}: found .* \(allowed: 0 or more, finite\)$"):
        Ball(**settings)


def test_a_step_is_needed():
    with pytest.raises(ValueError, match=r"^step_size: found None \(allowed: 0 or more, finite\)$"):
        Ball(0.3, None)
    assert Ball(0.3, 0).is_point is False


@pytest.mark.parametrize("wrong", [PGDTraining(), {"eps": 0.1}])
def test_the_trainer_takes_freelbs_settings_alone(wrong):
    """Another strategy's settings fit, too, but what would be trained is FreeLB."""
    names = {one.name for one in dataclasses.fields(PGDTraining)}
    assert names < {one.name for one in dataclasses.fields(FreeLB)}
    said = rf"^freelb: found {type(wrong).__name__} \(allowed: FreeLBArguments, FreeLB\)$"
    with pytest.raises(ValueError, match=said):
        FreeLBTrainer(freelb=wrong)


@pytest.mark.parametrize("wrong", [9, -1])
def test_ids_of_another_tokenizer(wrong):
    _check_ids(torch.tensor([[0, 8]]), TABLE)
    with pytest.raises(ValueError, match=rf"^input_ids: found {wrong} \(allowed: 0 to 8, .*\)$"):
        _check_ids(torch.tensor([[0, wrong]]), TABLE)


def test_running_statistics_move_once_a_step_without_the_model_at_hand():
    """As in one plain pass at the first perturbation, here none."""
    norms = [nn.BatchNorm1d(4), nn.BatchNorm1d(4)]
    x = TABLE(IDS).detach()
    norms[1](x.mean(1))
    freelb(
        lambda inputs_embeds: cross_entropy(OUT(norms[0](inputs_embeds.mean(1))), LABELS),
        x.requires_grad_(),
        passes=3,
        start_norm=0.0,
    )
    assert int(norms[0].num_batches_tracked) == 1
    torch.testing.assert_close(norms[0].running_mean, norms[1].running_mean)
    assert norms[0].track_running_stats
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_a_sharded_model_is_refused_in_a_line():
    class FullyShardedDataParallel(nn.Sequential):
        """Stands for torch's, which wants several processes."""

    model = FullyShardedDataParallel(TABLE, OUT)
    with pytest.raises(ValueError, match=r"^fsdp: found FullyShardedDataParallel \(allowed: .*\)$"):
        FreeLB()(model, cross_entropy, (IDS, LABELS))


def test_a_mask_that_is_added_to_scores_is_refused():
    embeds = torch.zeros(2, 3, 4, requires_grad=True)
    added = torch.tensor([[0.0, 0.0, -1e4], [0.0, -1e4, -1e4]])
    with pytest.raises(
        ValueError, match=r"^attention_mask: found -10000 \(allowed: 1 for a token, 0 for padding\)$"
    ):
        freelb(lambda inputs_embeds: inputs_embeds.sum(), embeds, added)


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4)])
def test_a_batch_without_a_token_is_refused(shape):
    with pytest.raises(ValueError, match=r"^inputs_embeds: found \(\d, \d, 4\) for None samples \(allowed: "):
        freelb(lambda inputs_embeds: inputs_embeds.sum(), torch.zeros(shape, requires_grad=True))


STRATEGIES = {
    "freelb": lambda: FreeLB(space=PixelSpace(), norm="linf", passes=2),
    "free_at": lambda: FreeAT(space=PixelSpace(), norm="linf", passes=2),
    "pgd": lambda: PGDTraining(space=PixelSpace(), norm="linf", passes=2),
    "worst case": lambda: AdversarialGradient(eps=0.1, step_size=0.1, steps=1),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_names_a_loss_of_many_entries(name):
    strategy, other = STRATEGIES[name](), nn.Parameter(torch.ones(()))
    batch = (torch.rand(2, 4), LABELS)
    with pytest.raises(ValueError, match=r"^loss: returns shape \(2,\) \(allowed: a scalar tensor"):
        strategy(OUT, lambda said, labels: cross_entropy(said, labels, reduction="none"), batch)
    if name != "worst case":
        with pytest.raises(ValueError, match=r"^loss: does not depend on the .* \(allowed: .*\)$"):
            STRATEGIES[name]()(OUT, lambda said, labels: other * 2, batch)
