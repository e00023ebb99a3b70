"""PGD: exact on linear models, gradients by finite differences, never outside the ball, never worse with more effort."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.maths.eval_mode import frozen
from relearn.methods.pgd import ascend, pgd, random_starts


class Linear(nn.Module):
    """Logits of flat images; everything about it is known."""

    def __init__(self, classes: int = 2, shape=(1, 3, 3), seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        size = shape[0] * shape[1] * shape[2]
        self.weight = nn.Parameter(torch.randn(classes, size, generator=generator, dtype=torch.float64))
        self.bias = nn.Parameter(torch.randn(classes, generator=generator, dtype=torch.float64))

    def forward(self, x):
        return x.flatten(1) @ self.weight.T + self.bias


def small_net(seed: int = 0, dtype=torch.float64):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.Tanh(),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(4 * 16, 3),
    ).to(dtype)


def problem(n=12, shape=(1, 4, 4), classes=3, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(n, *shape, generator=generator, dtype=dtype)
    return images, torch.randint(0, classes, (n,), generator=generator)


@pytest.mark.parametrize("random_start", [True, False])
def test_on_a_linear_model_the_result_is_the_exact_maximum(random_start):
    """Two classes: the loss falls with the margin (w_y - w_o)·x, whose minimum over the cube is at a corner, pixel by pixel."""
    net, eps = Linear(), 0.1
    images, labels = problem(shape=(1, 3, 3), classes=2)
    found = pgd(
        net, images, labels, eps=eps, step_size=2 * eps, steps=1, random_start=random_start, restarts=2
    )
    direction = net.weight.detach()[1 - labels] - net.weight.detach()[labels]
    corner = (images + eps * direction.reshape(images.shape).sign()).clamp(0, 1)
    assert torch.allclose(found.images, corner, atol=1e-12, rtol=0)
    assert torch.equal(found.fooled, net(corner).argmax(1) != labels)


def test_small_steps_reach_the_same_corner():
    net, eps = Linear(), 0.1
    images, labels = problem(shape=(1, 3, 3), classes=2)
    one = pgd(net, images, labels, eps=eps, step_size=2 * eps, steps=1)
    many = pgd(net, images, labels, eps=eps, step_size=eps / 4, steps=8)
    assert torch.allclose(one.images, many.images, atol=1e-12, rtol=0)


def test_one_step_follows_the_sign_of_finite_differences():
    net, (images, labels) = small_net(), problem(n=2)
    net.train()
    step, h = 0.01, 1e-6
    with frozen(net):
        found = ascend(
            net,
            lambda logits: cross_entropy(logits, labels, reduction="none"),
            images,
            images,
            eps=0.5,
            step_size=step,
            steps=1,
        )
        for index in range(16):
            moved = images.flatten(1).clone()
            moved[:, index] += h
            up = cross_entropy(net(moved.reshape(images.shape)), labels, reduction="none")
            moved[:, index] -= 2 * h
            down = cross_entropy(net(moved.reshape(images.shape)), labels, reduction="none")
            slope = (up - down) / (2 * h)
            expected = (images.flatten(1)[:, index] + step * slope.sign()).clamp(0, 1)
            clear = slope.abs() > 1e-6
            assert torch.allclose(found.flatten(1)[clear, index], expected[clear], atol=1e-12, rtol=0)


@settings(max_examples=25)
@given(
    eps=st.floats(0, 1),
    step=st.floats(0, 0.5),
    steps=st.integers(0, 3),
    restarts=st.integers(1, 2),
    random_start=st.booleans(),
    seed=st.integers(0, 99),
)
def test_nothing_leaves_the_ball_or_the_pixels(eps, step, steps, restarts, random_start, seed):
    net = small_net(dtype=torch.float32)
    images, labels = problem(n=3, seed=seed, dtype=torch.float32)
    found = pgd(
        net,
        images,
        labels,
        eps=eps,
        step_size=step,
        steps=steps,
        restarts=restarts,
        random_start=random_start,
        seed=seed,
    )
    assert float((found.images - images).abs().max()) <= eps + 1e-6
    assert float(found.images.min()) >= 0 and float(found.images.max()) <= 1
    assert found.loss_curves.shape == (restarts, steps + 1)


def test_random_starts_fill_the_cube_and_stay_in_it():
    images = torch.full((200, 1, 4, 4), 0.5)
    start = random_starts(images, 0.1, torch.Generator().manual_seed(0))
    change = (start - images).double()
    assert 0.0995 < float(change.abs().max()) <= 0.1 + 1e-7
    assert abs(float(change.mean())) < 0.005 and abs(float(change.var()) - 0.2**2 / 12) < 2e-4
    edge = random_starts(torch.ones(50, 1, 4, 4), 0.3, torch.Generator().manual_seed(0))
    assert float(edge.max()) == 1.0 and float(edge.min()) < 0.75


def test_what_is_said_to_be_fooled_is_and_clean_errors_count():
    net, (images, labels) = small_net(), problem(n=40)
    found = pgd(net, images, labels, eps=0.05, step_size=0.02, steps=3, restarts=2)
    net.eval()
    assert torch.equal(net(found.images).argmax(1) != labels, found.fooled)
    clean_errors = net(images).argmax(1) != labels
    assert bool(found.fooled[clean_errors].all()) and 0 < int(clean_errors.sum()) < 40
    nothing = pgd(net, images, labels, eps=0.0, step_size=0.1, steps=2)
    assert torch.equal(nothing.fooled, clean_errors) and torch.equal(nothing.images, images)


def test_more_restarts_and_more_steps_never_spare_an_image():
    net, (images, labels) = small_net(3), problem(n=60, seed=2)
    few = pgd(net, images, labels, eps=0.06, step_size=0.02, steps=2, restarts=1)
    more = pgd(net, images, labels, eps=0.06, step_size=0.02, steps=2, restarts=4)
    longer = pgd(net, images, labels, eps=0.06, step_size=0.02, steps=6, restarts=1)
    for other in (more, longer):
        assert not bool((few.fooled & ~other.fooled).any())
        net.eval()
        before = cross_entropy(net(few.images), labels, reduction="none")
        after = cross_entropy(net(other.images), labels, reduction="none")
        same = few.fooled == other.fooled
        assert bool((after[same] >= before[same] - 1e-12).all())
    assert torch.equal(more.loss_curves[0], few.loss_curves[0])
    assert torch.equal(longer.loss_curves[0, :3], few.loss_curves[0])
    assert int(longer.fooled.sum() + more.fooled.sum()) > 2 * int(few.fooled.sum())


def test_an_image_is_worse_than_a_start_of_smaller_loss():
    net, (images, labels) = small_net(3).eval(), problem(n=60, seed=2)
    found = pgd(net, images, labels, eps=0.06, step_size=0.02, steps=0)
    before, after = (cross_entropy(net(x), labels, reduction="none") for x in (images, found.images))
    assert bool((after >= before)[~found.fooled].all()) and bool((after > before).any())


def test_a_misclassified_point_is_kept_before_one_of_larger_loss():
    """The images are misclassified, and this loss leads to where they are correct: its larger values must not win."""
    net, (images, _) = Linear(seed=1), problem(shape=(1, 3, 3), classes=2)
    net.bias.data.zero_()
    labels = 1 - net(images).argmax(1)
    direction = (net.weight[labels] - net.weight[1 - labels]).detach().reshape(images.shape)
    assert bool((net((images + direction.sign()).clamp(0, 1)).argmax(1) == labels).all())  # there it leads

    def turned(logits, y, reduction):
        return -cross_entropy(logits, y, reduction=reduction)

    found = pgd(net, images, labels, eps=1, step_size=2, steps=1, random_start=False, loss=turned)
    assert bool(found.fooled.all()) and torch.equal(net(found.images).argmax(1) != labels, found.fooled)
    assert float(found.loss_curves[0, 1]) > float(found.loss_curves[0, 0])


def test_loss_curves_are_the_mean_losses_of_the_visited_points():
    net, (images, labels) = small_net(), problem()
    found = pgd(net, images, labels, eps=0.05, step_size=0.02, steps=3, random_start=False)
    losses = []
    with frozen(net):
        for steps in range(4):
            point = ascend(
                net,
                lambda logits: cross_entropy(logits, labels, reduction="none"),
                images,
                images,
                eps=0.05,
                step_size=0.02,
                steps=steps,
            )
            losses.append(float(cross_entropy(net(point), labels)))
    assert found.loss_curves[0].tolist() == pytest.approx(losses, abs=1e-12)
    assert losses == sorted(losses) and losses[-1] > losses[0] + 0.01


@pytest.mark.parametrize("batch", [1, 5, 12, 24, 30, 100])
def test_batches_change_nothing(batch):
    """Neither many images at once nor, with more room than images, several restarts at once."""
    net, (images, labels) = small_net(), problem()
    sizes = []
    net.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    whole = pgd(net, images, labels, eps=0.05, step_size=0.02, steps=3, restarts=3, seed=4)
    assert set(sizes) == {12}
    sizes.clear()
    found = pgd(net, images, labels, eps=0.05, step_size=0.02, steps=3, restarts=3, seed=4, batch=batch)
    assert batch >= max(sizes) == {1: 1, 5: 5, 12: 12, 24: 24, 30: 24, 100: 36}[batch]
    assert torch.allclose(found.images, whole.images, atol=1e-12)
    assert torch.allclose(found.loss_curves, whole.loss_curves, atol=1e-12)


def test_starts_do_not_depend_on_the_batch_in_float32():
    images = torch.full((7, 3, 5, 5), 0.5)
    one, other = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    whole = random_starts(images, 0.1, one)
    parts = torch.cat([random_starts(part, 0.1, other) for part in images.split(2)])
    assert torch.equal(whole, parts)


def test_the_network_is_used_in_eval_mode_and_given_back_as_it_was():
    net, (images, labels) = small_net(), problem()
    net.train()
    net[1].eval()
    net[0].bias.requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    pgd(net, images, labels, eps=0.05, step_size=0.02, steps=2)
    assert [module.training for module in net] == [True, False, True, True, True, True]
    assert [p.requires_grad for p in net.parameters()] == [True, False, True, True, True, True]
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())


def test_the_network_is_given_back_after_an_error_too():
    net = small_net().train()
    with pytest.raises(ZeroDivisionError), frozen(net):
        raise ZeroDivisionError
    assert net.training and all(p.requires_grad for p in net.parameters())


def test_uint8_images_are_pixels_and_a_nan_network_fools_by_nothing_it_found():
    net = small_net(dtype=torch.float32)
    images, labels = problem(dtype=torch.float32)
    eight = (images * 255).round().to(torch.uint8)
    one = pgd(net, eight, labels, eps=0.05, step_size=0.02, steps=1)
    other = pgd(net, eight.float() / 255, labels, eps=0.05, step_size=0.02, steps=1)
    assert torch.equal(one.images, other.images) and one.images.dtype == torch.float32
    net[5].bias.data.fill_(float("nan"))
    broken = pgd(net, eight, labels, eps=0.05, step_size=0.02, steps=1)
    assert torch.equal(broken.images, eight.float() / 255)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"eps": 8}, "eps is 8; allowed: 0 to 1"),
        ({"step_size": -1}, "step_size is -1"),
        ({"steps": -1}, "steps is -1"),
        ({"steps": 2.5}, r"steps is 2\.5, restarts 1; allowed: whole numbers"),
        ({"restarts": 0}, "restarts 0"),
        ({"batch": 0}, "batch is 0"),
        ({"precision": "fp16"}, "allowed are fp32, bf16"),
    ],
)
def test_numbers_out_of_range_are_named(change, says):
    net, (images, labels) = small_net(), problem()
    with pytest.raises(ValueError, match=says):
        pgd(net, images, labels, **({"eps": 0.1, "step_size": 0.1, "steps": 1} | change))


def test_networks_without_parameters_and_outputs_that_are_no_logits():
    net, (images, labels) = nn.Flatten(), problem()
    how = dict(eps=0.1, step_size=0.1, steps=1)
    assert pgd(net, images, labels, **how).images.shape == images.shape
    with pytest.raises(ValueError, match=r"loss: returns shape \(\) with reduction='none'"):
        pgd(net, images, labels, loss=lambda z, y, reduction: z.mean(), **how)
    net.forward = lambda x: {"logits": x.flatten(1)}
    with pytest.raises(TypeError, match="model: returns a dict"):
        pgd(net, images, labels, **how)
    net.forward = lambda x: x.flatten(1)[:, :1]  # its largest logit is always that of class 0
    with pytest.raises(ValueError, match=r"model: returns \(12, 1\) .*two classes or more"):
        pgd(net, images, labels, **how)
    net.forward = lambda x: x.flatten(1)[:5]
    with pytest.raises(ValueError, match=r"model: returns \(5, \d+\) .*allowed: logits \(n, classes\)"):
        pgd(net, images, labels, **how)


def test_a_point_whose_loss_is_nan_is_not_the_worst():
    images, net = problem()[0], nn.Flatten()
    labels = images.flatten(1).argmax(1).clamp(min=1)  # not 0, the class of NaN alone
    net.forward = lambda x: x.flatten(1) * (1.0 if torch.equal(x, images) else torch.nan)
    found = pgd(net, images, labels, eps=0.1, step_size=0.1, steps=1)
    assert torch.equal(found.images, images)
    assert torch.equal(found.fooled, images.flatten(1).argmax(1) != labels)


def test_images_that_are_no_pixels_are_refused():
    net, (images, labels) = small_net(), problem()
    with pytest.raises(ValueError, match=r"allowed: pixels in \[0, 1\]"):
        pgd(net, images * 255, labels, eps=0.1, step_size=0.1, steps=1)
    with pytest.raises(TypeError, match="int64"):
        pgd(net, images.long(), labels, eps=0.1, step_size=0.1, steps=1)
    with pytest.raises(ValueError, match=r"allowed are \(n, C, H, W\)"):
        pgd(net, images, labels[:3], eps=0.1, step_size=0.1, steps=1)
