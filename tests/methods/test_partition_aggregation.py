"""Deep partition aggregation: brute force over all changes of a tiny set never breaks a certificate, and changes beyond it do."""

import itertools

import pytest
import torch
from torch import Tensor, nn

from relearn.methods.partition_aggregation import Ensembles, certified, digest, part_of, train, votes
from relearn.methods.transfer import fine_tune

RECIPE = {"epochs": 8, "lr": 0.3, "milestones": ()}


def some_images(count: int, seed: int = 0) -> Tensor:
    """8-bit images (count, 1, 2, 2)."""
    return torch.randint(0, 256, (count, 1, 2, 2), generator=torch.Generator().manual_seed(seed)).byte()


def as_set(images: Tensor, labels: Tensor) -> tuple[list[bytes], Tensor, Tensor]:
    """A set whose features are its pixels, float64."""
    return [digest(one) for one in images], images.flatten(1).double() / 255, labels


def a_head(classes: int = 2, seed: int = 0) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(4, classes).double()


def ensembles(sets: list[tuple[Tensor, Tensor]], parts: int) -> Ensembles:
    return train([as_set(*one) for one in sets], a_head(), parts=parts, **RECIPE)


def touched(before: Ensembles, after: Ensembles) -> list[int]:
    """The parts whose heads differ by more than rounding."""
    change = (after.weight - before.weight).abs().flatten(2).amax(2)[0]
    return (change > 1e-9).nonzero().flatten().tolist()


def test_the_certificate_of_votes_is_the_largest_that_holds() -> None:
    """All ways to hand out six votes: the least number of votes that must move to change the winner is one more."""
    cast = torch.tensor([v for v in itertools.product(range(7), repeat=3) if sum(v) == 6])
    winner, radius = certified(cast)
    moved = (cast[:, None] - cast).abs().sum(2) // 2  # votes that differ
    moved[winner[:, None] == winner] = 99
    assert torch.equal(moved.min(1).values, radius + 1)
    assert set(radius.tolist()) == {0, 1, 2, 3}


def test_of_equal_votes_the_smallest_class_wins_and_the_other_needs_one_more() -> None:
    winner, radius = certified(torch.tensor([[2, 2, 0], [3, 1, 0], [1, 3, 0]]))
    assert winner.tolist() == [0, 0, 1] and radius.tolist() == [0, 1, 0]
    assert certified(torch.tensor([[4]]))[1] == 4  # one class alone: all votes


def test_no_change_of_r_images_breaks_a_certificate_and_more_do() -> None:
    """Every set within three additions, removals and relabellings of six images, trained; 60 points, each with its certificate."""
    images = some_images(9)
    labels = (images.flatten(1).float().mean(1) > 128).long()
    assert 2 <= int(labels[:6].sum()) <= 4
    own = [*range(6)]
    sets, distance = [], []
    for removed in itertools.chain.from_iterable(itertools.combinations(own, r) for r in range(4)):
        for added in itertools.chain.from_iterable(itertools.combinations((6, 7, 8), r) for r in range(4)):
            for flipped in ([], [one for one in own if one not in removed][:1]):
                if (changes := len(removed) + len(added) + len(flipped)) <= 3:
                    rows = torch.tensor([one for one in own if one not in removed] + [*added])
                    y = labels[rows].clone()
                    y[[rows.tolist().index(one) for one in flipped]] ^= 1
                    sets.append((images[rows], y))
                    distance.append(changes)
    start = a_head()
    with torch.no_grad():  # as a pre-trained head: it tells bright from dark
        start.weight.copy_(torch.tensor([[-2.0], [2.0]]).expand(2, 4))
        start.bias.copy_(torch.tensor([4.0, -4.0]))
    found = train([as_set(*one) for one in sets], start, parts=5, **RECIPE)
    points = some_images(60, seed=1).flatten(1).double() / 255
    answers = torch.stack(
        [certified(votes(w, b, points))[0] for w, b in zip(found.weight, found.bias, strict=True)]
    )
    assert distance[0] == 0
    radius = certified(votes(found.weight[0], found.bias[0], points))[1]
    assert {0, 1, 2} == set(radius.tolist())
    differs = answers != answers[0]
    for changes in (1, 2, 3):
        within = differs[torch.tensor(distance) == changes]
        assert not within[:, radius >= changes].any()
        assert within[:, radius < changes].any(), "a control: uncertified points can be changed"


def test_a_replaced_image_counts_twice() -> None:
    """One image in place of another: two parts may change, so a certificate of one does not cover it."""
    images, labels = some_images(40), torch.arange(40) % 2
    before = ensembles([(images[:20], labels[:20])], parts=10)
    changed = []
    for new in range(20, 40):
        other = images[:20].clone()
        other[0] = images[new]
        after = ensembles([(other, labels[:20])], parts=10)
        changed.append(len(touched(before, after)))
    assert set(changed) == {1, 2}  # one if the new image falls into the part of the old one


def test_one_image_touches_one_part_wherever_it_stands() -> None:
    images, labels = some_images(30), torch.arange(30) % 2
    whole = ensembles([(images, labels)], parts=5)
    for left_out in (0, 13, 29):
        rows = torch.tensor([row for row in range(30) if row != left_out]).flip(0)  # another order, too
        less = ensembles([(images[rows], labels[rows])], parts=5)
        assert touched(whole, less) == [part_of(digest(images[left_out]), 5)]


def test_each_head_is_the_one_that_is_trained_on_its_part_alone() -> None:
    """A slow truth: the victims' own training, part by part; a part without an image keeps the given head."""
    images, labels, head = some_images(12), torch.arange(12) % 3, a_head(3)
    found = train([as_set(images, labels)], head, parts=8, **RECIPE)
    names, features, _ = as_set(images, labels)
    sizes = set()
    for part in range(8):
        rows = [row for row, name in enumerate(names) if part_of(name, 8) == part]
        sizes.add(len(rows))
        weight, bias = head.weight.detach(), head.bias.detach()
        if rows:
            rows = rows if len(rows) > 1 else rows * 2  # twice the same image: the same mean
            keep = torch.ones(len(rows), 1, 1)
            alone = fine_tune(features[rows][:, None], labels[rows], keep, head, batch_size=12, **RECIPE)[0]
            weight, bias = alone.weight[0, 0], alone.bias[0, 0]
        torch.testing.assert_close(found.weight[0, part], weight)
        torch.testing.assert_close(found.bias[0, part], bias)
    assert 0 in sizes and len(sizes) > 2


def test_every_head_has_one_vote_for_its_best_class() -> None:
    found = ensembles([(some_images(10), torch.arange(10) % 2)], parts=4)
    points = some_images(7, seed=2).flatten(1).double()
    cast = votes(found.weight[0], found.bias[0], points, block=3)
    assert (cast.sum(1) == 4).all()
    for number, point in enumerate(points):
        chosen = [int((w @ point + b).argmax()) for w, b in zip(found.weight[0], found.bias[0], strict=True)]
        assert cast[number].tolist() == [chosen.count(0), chosen.count(1)]


def test_arguments_that_are_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="parts is 0; allowed: an integer >= 1"):
        ensembles([(some_images(2), torch.arange(2))], parts=0)
    with pytest.raises(ValueError, match="sets: found none"):
        train([], a_head(), parts=2)
