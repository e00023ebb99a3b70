"""Adversarial training: the gradient is autograd's on the attacked batch, batch statistics move once, resuming is exact."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.methods.adversarial_training import AdversarialGradient
from relearn.methods.fit import fit, plain_gradient
from relearn.methods.pgd import pgd


def network(seed: int = 0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.Tanh(),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(4 * 16, 3),
    ).double()


def batch(n: int = 16):
    generator = torch.Generator().manual_seed(5)
    images = torch.rand(n, 1, 4, 4, generator=generator, dtype=torch.float64)
    return images, torch.randint(0, 3, (n,), generator=generator)


def gradients(net):
    return [p.grad.clone() for p in net.parameters()]


class Stored(AdversarialGradient):
    """Keeps the batch that was attacked."""

    def perturb(self, model, objective, images):
        object.__setattr__(self, "worst", super().perturb(model, objective, images))
        return self.worst


def test_the_gradient_is_autograds_on_the_attacked_batch():
    images, labels = batch()
    net, other = network().train(), network().train()
    strategy = Stored(eps=0.1, step_size=0.05, steps=3)
    torch.manual_seed(1)
    value = strategy(net, cross_entropy, (images, labels))
    torch.manual_seed(1)
    torch.rand(images.shape, dtype=images.dtype)  # the start; Dropout's masks come behind it
    loss = cross_entropy(other(strategy.worst), labels)
    expected = torch.autograd.grad(loss, list(other.parameters()))
    assert torch.equal(value, loss.detach())
    for found, wanted in zip(gradients(net), expected):
        assert torch.equal(found, wanted)
    assert not torch.equal(strategy.worst, images)


def test_the_attacked_batch_is_pgds():
    """One start, eval mode, the same generator: the last point of PGD's loop, which on these images is also its worst."""
    images, labels = batch()
    net = network().train()
    torch.manual_seed(2)
    worst = AdversarialGradient(eps=0.1, step_size=0.05, steps=3).perturb(
        net, lambda logits: cross_entropy(logits, labels), images
    )
    net.eval()
    change = (worst - images).abs()
    assert float(change.max()) <= 0.1 + 1e-12 and worst.min() >= 0 and worst.max() <= 1
    before, after = (cross_entropy(net(x), labels, reduction="none") for x in (images, worst))
    assert bool((after > before).all())
    reference = pgd(net, images, labels, eps=0.1, step_size=0.05, steps=3, restarts=1)
    best = cross_entropy(net(reference.images), labels, reduction="none")
    assert torch.allclose(after, best, rtol=0.05)


def test_running_statistics_move_once_a_step_by_the_attacked_batch():
    images, labels = batch()
    net, other = network().train(), network().train()
    strategy = Stored(eps=0.1, step_size=0.05, steps=4)
    strategy(net, cross_entropy, (images, labels))
    assert int(net[1].num_batches_tracked) == 1 and net.training
    other(strategy.worst)
    assert torch.equal(net[1].running_mean, other[1].running_mean)
    assert torch.equal(net[1].running_var, other[1].running_var)
    # The negative control: an attack in train mode would have moved them at every step.
    for _ in range(4):
        other(images)
    assert int(other[1].num_batches_tracked) == 5


@pytest.mark.parametrize("strategy", [AdversarialGradient(eps=0.0), AdversarialGradient(0.1, 0.1, 0, False)])
def test_without_a_ball_or_an_attack_it_is_plain_back_propagation(strategy):
    images, labels = batch()
    net, other = network().eval(), network().eval()
    value = strategy(net, cross_entropy, (images, labels))
    assert torch.equal(value, plain_gradient(other, cross_entropy, (images, labels)))
    for found, wanted in zip(gradients(net), gradients(other)):
        assert torch.equal(found, wanted)


def test_a_trained_network_is_harder_to_fool_than_a_plainly_trained_one():
    """Two features: a strong one that ε = 0.1 can turn, and a weaker one that it cannot; only one training learns to rely on it."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 2, (400,), generator=generator)
    sign = labels * 2.0 - 1
    images = torch.rand(400, 1, 4, 4, generator=generator) * 0.02 + 0.49
    images[:, 0, 0, :] += 0.04 * sign[:, None]  # four pixels, always right, within the ball
    right = torch.where(torch.rand(400, generator=generator) < 0.9, sign, -sign)
    images[:, 0, 3, 3] += 0.4 * right  # one pixel, right nine times in ten, beyond the ball
    kept = {}
    for name, gradient in (("plain", plain_gradient), ("hard", AdversarialGradient(0.1, 0.05, 4))):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
        fit(
            net,
            (images, labels),
            loss=cross_entropy,
            epochs=30,
            batch_size=100,
            lr=1.0,
            gradient=gradient,
            seed=0,
        )
        kept[name] = 1 - float(
            pgd(net, images, labels, eps=0.1, step_size=0.05, steps=5).fooled.double().mean()
        )
    assert kept["hard"] > 0.85 > 0.5 > kept["plain"]


def test_a_resumed_training_ends_in_the_same_bits():
    images, labels = batch(20)

    class Memory:
        state, stop = None, True

        def load(self):
            return self.state

        def save(self, state):
            Memory.state = {k: v.clone() if torch.is_tensor(v) else v for k, v in state.items()}
            if self.stop:
                raise KeyboardInterrupt

    def train(checkpoint=None):
        net = network()
        fit(
            net,
            (images, labels),
            loss=cross_entropy,
            epochs=3,
            batch_size=8,
            lr=0.1,
            gradient=AdversarialGradient(0.1, 0.05, 2),
            seed=3,
            checkpoint=checkpoint,
        )
        return net.state_dict()

    whole, memory = train(), Memory()
    with pytest.raises(KeyboardInterrupt):
        train(memory)
    Memory.stop = False
    torch.manual_seed(99)
    resumed = train(memory)
    assert all(torch.equal(tensor, whole[name]) for name, tensor in resumed.items())


def test_defaults_are_the_documented_ones_and_wrong_numbers_are_named():
    default = AdversarialGradient()
    assert (default.eps * 255, default.step_size * 255, default.steps) == (8, 2, 7)
    with pytest.raises(ValueError, match="eps is 8"):
        AdversarialGradient(eps=8)
    with pytest.raises(ValueError, match="steps is -1"):
        AdversarialGradient(steps=-1)
    with pytest.raises(ValueError, match=r"float32, 0 to 2 \(allowed: floats in \[0, 1\]"):
        default.perturb(torch.nn.Flatten(), torch.sum, torch.arange(3.0).view(1, 1, 1, 3))
