"""Contracts of the methods that other packages bring: base classes for their tests, run by pytest.

A package that registers a method (:mod:`relearn.runs.plugins`) tests it by a subclass that says how to make one; docs/extending.md has an
example. The project's own methods pass the same contracts.
"""

from __future__ import annotations

import copy
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


def labelled_points(n: int = 60, d: int = 6, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Features of three classes, (n, d), each with its own centre, and their labels, (n,)."""
    rng, y = np.random.default_rng(seed), np.arange(n) % 3
    return (rng.normal(size=(n, d)) + 2 * np.eye(3, d)[y]).astype(np.float32), y


def random_states() -> tuple[Any, ...]:
    """The global states of torch's, NumPy's and Python's generators, to be compared."""
    _, words, *rest = np.random.get_state()
    return torch.get_rng_state().tolist(), np.asarray(words).tolist(), rest, random.getstate()


class DefenceContract:
    """What every filter of training points promises, whatever it thinks of the points.

    ``fit_predict(X, y)`` takes features (n, d), or a stack of sets (T, n, d), with labels (n,), and returns int64 of the labels'
    shape: 1 keeps a point, -1 drops it. :class:`relearn.methods.detector.Detector` provides all but the decision.
    """

    draws = False  # whether it draws random numbers: then each set of a stack has its own
    accepts_no_points = True

    def make(self) -> Any:
        """A new defence, with arguments that suit 60 points of three classes."""
        raise NotImplementedError

    def test_answers_one_or_minus_one_for_every_point(self) -> None:
        X, y = labelled_points()
        kept = self.make().fit_predict(X, y)
        assert isinstance(kept, np.ndarray) and kept.shape == (60,) and kept.dtype == np.int64
        assert set(kept.tolist()) <= {1, -1}

    def test_is_deterministic_and_leaves_no_trace(self) -> None:
        defence, (X, y) = self.make(), labelled_points()
        torch.rand(1), np.random.rand(), random.random()  # no state that a fixed seed would restore
        before, parameters, states = (X.copy(), y.copy()), defence.get_params(), random_states()
        first = defence.fit_predict(X, y)
        np.testing.assert_array_equal(defence.fit_predict(X, y), first)
        assert (before[0] == X).all() and (y == before[1]).all() and defence.get_params() == parameters
        assert random_states() == states, "a global random state changed"

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_leaves_the_callers_features_alone_also_in_a_crowd(self, dtype: Any) -> None:
        X, y = np.repeat(labelled_points(n=3)[0].astype(dtype), 40, axis=0), np.arange(120) % 2
        before = X.copy()
        self.make().fit_predict(X, y), self.make().fit_predict(torch.from_numpy(X), y)
        np.testing.assert_array_equal(X, before)

    def test_arrays_and_tensors_give_the_same(self) -> None:
        defence, (X, y) = self.make(), labelled_points()
        kept = defence.fit_predict(X, y)
        features = torch.from_numpy(X).requires_grad_()
        np.testing.assert_array_equal(defence.fit_predict(features, torch.from_numpy(y)), kept)
        np.testing.assert_array_equal(defence.fit_predict(X.tolist(), y.tolist()), kept)
        np.testing.assert_array_equal(defence.fit_predict(X[:, ::-1][:, ::-1], y), kept)

    def test_labels_may_be_anything_that_can_be_told_apart_but_too_few(self) -> None:
        defence, (X, y) = self.make(), labelled_points()
        kept = defence.fit_predict(X, y)
        for names in (np.array([-5, 17, 1000]), np.array(["cat", "dog", "frog"]), np.array([0.5, 1.5, 2.5])):
            np.testing.assert_array_equal(defence.fit_predict(X, names[y]), kept)
        with pytest.raises(ValueError, match=r"y has shape \(59,\)"):
            defence.fit_predict(X, y[:-1])

    def test_a_stack_is_one_answer_for_each_set(self) -> None:
        defence = self.make()
        X, y = np.stack([labelled_points(seed=seed)[0] for seed in range(3)]), labelled_points()[1]
        kept = defence.fit_predict(X, y)
        assert kept.shape == (3, 60) and kept.dtype == np.int64
        np.testing.assert_array_equal(defence.fit_predict(torch.from_numpy(X), np.stack([y] * 3)), kept)
        for t in range(1 if self.draws else 3):
            np.testing.assert_array_equal(defence.fit_predict(X[t], y), kept[t])
        assert defence.fit_predict(X[:0], y).shape == (0, 60)

    def test_the_constructor_only_stores_and_scikit_learns_clone_works(self) -> None:
        from sklearn.base import clone

        defence, (X, y) = self.make(), labelled_points()
        nonsense = {parameter: object() for parameter in defence.get_params()}
        stored, copy = type(defence)(**nonsense), clone(defence)
        assert vars(stored) == nonsense == stored.get_params()
        assert type(copy) is type(defence) and copy is not defence
        assert copy.get_params() == defence.get_params()
        np.testing.assert_array_equal(copy.fit_predict(X, y), defence.fit_predict(X, y))
        assert all(copy.set_params(**{name: one}) is copy for name, one in defence.get_params().items())
        with pytest.raises(ValueError, match="has no parameter 'nonsense'"):
            copy.set_params(nonsense=1)

    def test_features_that_are_not_finite_are_refused_by_row(self) -> None:
        X, y = labelled_points()
        X[[7, 30]] = np.nan
        with pytest.raises(ValueError, match="rows 7, 30"):
            self.make().fit_predict(X, y)

    def test_an_empty_set_has_an_empty_answer(self) -> None:
        if self.accepts_no_points:
            kept = self.make().fit_predict(np.zeros((0, 4)), [])
            assert kept.shape == (0,) and kept.dtype == np.int64

    def test_a_class_of_one_point_and_a_set_of_one_class(self) -> None:
        X, y = labelled_points()
        y[0] = 99
        assert set(self.make().fit_predict(X, y).tolist()) <= {1, -1}
        assert (self.make().fit_predict(X, np.full(60, 4)) == 1).sum() > 30

    def test_constant_features(self) -> None:
        X, y = np.full((60, 4), 0.1, np.float32), labelled_points()[1]
        kept = self.make().fit_predict(X, y)
        np.testing.assert_array_equal(self.make().fit_predict(X + 5, y), kept)
        assert set(kept.tolist()) <= {1, -1}

    def test_duplicates_of_one_point_under_many_labels(self) -> None:
        X, y = labelled_points()
        X[:12] = X[0]
        kept = self.make().fit_predict(X, y)
        np.testing.assert_array_equal(kept, self.make().fit_predict(X.copy(), y.copy()))

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    def test_a_gpu_gives_the_same(self) -> None:
        X, y = labelled_points()
        kept = self.make().fit_predict(torch.from_numpy(X).cuda(), torch.from_numpy(y).cuda())
        np.testing.assert_array_equal(kept, self.make().fit_predict(X, y))


def hooked(model: nn.Module) -> list[str]:
    """Names of the modules and parameters of ``model`` that have a hook."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    named = (*model.named_modules(), *model.named_parameters())
    return [name for name, one in named if any(getattr(one, kind, None) for kind in kinds)]


def small_network(seed: int) -> nn.Module:
    """A narrow ResNet18 for images of 8 x 8 pixels, in evaluation mode."""
    from relearn.models import create

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return create("ResNet18", classes=3, width=0.07, dropout=0.2).eval()


class AttackContract:
    """What every crafting of clean-label poisons promises.

    ``craft(substitutes, bases, targets, *, eps, iterations, seed, **arguments)`` returns :class:`relearn.methods.crafting.Crafted`:
    poisons (T, k, C, H, W) with pixels in [0, 1], at most ``eps`` from ``bases`` of this shape, and ``final_loss`` (T,). A resumed run
    gives the same bits. Jobs and tests also pass ``precision``, ``watch``, ``progress``, ``log``, ``checkpoint``, ``checkpoint_every``.
    """

    eps = 0.1
    iterations = 3
    moves_bases = False  # whether its balls have other centres than the bases it is given
    reads_targets = True  # whether its poisons depend on the pixels of their target

    def craft(self, substitutes: list[nn.Module], bases: Tensor, targets: Tensor, **options: Any) -> Any:
        """Call the attack, with its own arguments added; ``options`` are all keywords that a job passes."""
        raise NotImplementedError

    def _craft(self, substitutes: Any = None, other: Tensor | None = None, **options: Any) -> Any:
        draw = torch.Generator().manual_seed(1)
        bases, targets = torch.rand(2, 3, 8, 8, generator=draw), torch.rand(2, 3, 8, 8, generator=draw)
        targets = targets if other is None else torch.stack([targets[0], other])
        step: dict[str, Any] = {"precision": "fp32", "watch": None, "checkpoint": None, "checkpoint_every": 1}
        step |= {"progress": lambda done, count: None, "log": lambda iteration, **metrics: None}
        chosen = {"eps": self.eps, "iterations": self.iterations, "seed": 0, **step, **options}
        images = bases.clone(), targets.clone()
        made = self.craft(substitutes or [small_network(0), small_network(1)], *images, **chosen)
        assert torch.equal(images[0], bases) and torch.equal(images[1], targets), "the given images changed"
        assert self.moves_bases or torch.equal(made.bases, bases.expand_as(made.bases)), "other bases"
        return made

    def test_poisons_stay_in_their_ball_and_in_the_pixels_range(self) -> None:
        made = self._craft()
        assert made.poisons.shape == (2, 2, 3, 8, 8) and made.bases.shape == made.poisons.shape
        assert made.poisons.dtype == made.bases.dtype == torch.float32
        assert made.poisons.isfinite().all() and made.poisons.min() >= 0 and made.poisons.max() <= 1
        assert 0 < (made.poisons - made.bases).abs().max() <= self.eps + 1e-6, "no poison moved, or too far"
        assert made.final_loss.shape == (2,) and made.final_loss.isfinite().all()

    def test_the_seed_decides_and_the_global_state_does_not(self) -> None:
        first = self._craft()
        torch.rand(3), np.random.rand(), random.random()
        states = random_states()
        assert torch.equal(self._craft().poisons, first.poisons)
        assert random_states() == states, "a global random state changed"

    def test_each_target_has_poisons_of_its_own(self) -> None:
        other = torch.linspace(0, 1, 192).view(3, 8, 8)
        first, second = self._craft().poisons, self._craft(other=other).poisons
        assert torch.equal(first[1], second[1]) != self.reads_targets, "does `reads_targets` say the truth?"
        torch.testing.assert_close(second[0], first[0], msg="another target's pixels changed these poisons")

    def test_substitutes_are_left_as_they_were(self) -> None:
        nets = [small_network(0), small_network(1)]
        before = [{name: value.clone() for name, value in net.state_dict().items()} for net in nets]
        self._craft(nets)
        for net, old in zip(nets, before):
            assert not net.training and not hooked(net)
            assert all(torch.equal(value, old[name]) for name, value in net.state_dict().items())
            assert all(weight.requires_grad and weight.grad is None for weight in net.parameters())

    def test_an_interrupted_run_resumes_to_the_same_bits(self) -> None:
        saved, loads, rows = list[dict[str, Any]](), list[int](), list[int]()

        def load() -> dict[str, Any] | None:
            loads.append(len(saved))
            return saved[-1] if saved else None

        def save(state: dict[str, Any]) -> None:
            saved.append({k: v.clone() if isinstance(v, Tensor) else v for k, v in state.items()})

        def stop(iteration: int, **_: Any) -> None:
            if iteration == 2:
                raise KeyboardInterrupt

        whole, kept = self._craft(), SimpleNamespace(load=load, save=save)
        with pytest.raises(KeyboardInterrupt):
            self._craft(log=stop, checkpoint=kept)
        resumed = self._craft(log=lambda iteration, **_: rows.append(iteration), checkpoint=kept)
        assert torch.equal(resumed.poisons, whole.poisons)
        assert any(loads) and len(rows) < self.iterations, "it began anew, without what it had saved"


class ModelContract:
    """What every image network promises: it is a :class:`relearn.models.classifier.Classifier`."""

    def make(self, **arguments: Any) -> Any:
        """A new network: its class called with classes, in_channels, width, depth, dropout, mean and std."""
        raise NotImplementedError

    def test_logits_are_the_head_of_the_features(self) -> None:
        assert self.make(classes=5, width=0.25, in_channels=1)(torch.rand(2, 1, 16, 16)).shape == (2, 5)
        net, images = self.make(classes=5, width=0.25).eval(), torch.rand(2, 3, 16, 16)
        features = net.features(images)
        assert features.shape == (2, net.feature_dim) and net(images).shape == (2, 5)
        torch.testing.assert_close(net(images), net.head(features))

    def test_images_of_a_batch_do_not_influence_each_other(self) -> None:
        net, images = self.make(classes=5, width=0.25).eval(), torch.rand(3, 3, 16, 16)
        torch.testing.assert_close(net(images)[:1], net(images[:1]), rtol=1e-4, atol=1e-5)

    def test_pixels_are_standardised_inside(self) -> None:
        torch.manual_seed(0)
        plain = self.make(classes=5, width=0.25).eval()
        torch.manual_seed(0)
        mean, std = [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]
        own = self.make(classes=5, width=0.25, mean=mean, std=std).eval()
        images = torch.rand(2, 3, 16, 16)
        standard = (images - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
        torch.testing.assert_close(own(images), plain(standard), rtol=1e-4, atol=1e-5)

    def test_dropout_acts_only_in_training(self) -> None:
        net, images = self.make(classes=5, width=0.25, dropout=0.5).eval(), torch.rand(4, 3, 16, 16)
        assert torch.equal(net(images), net(images))
        assert any(one.p == 0.5 for one in net.modules() if isinstance(one, nn.Dropout)), "no nn.Dropout"

    def test_it_is_a_classifier_that_can_be_trained_and_saved(self) -> None:
        from relearn.models.classifier import Classifier

        net, images = self.make(classes=5, width=0.25, depth=0.5), torch.rand(4, 3, 16, 16).requires_grad_()
        assert isinstance(net, Classifier), f"{type(net).__name__} is no relearn.models.classifier.Classifier"
        assert net.train()(images).shape == (4, 5) and net(images).isfinite().all()
        net.features(images).square().sum().backward()
        assert images.grad is not None and images.grad.any(), "no gradient of the images"
        for name, one in net.named_parameters():
            if not name.startswith("head."):
                assert one.grad is not None and one.grad.isfinite().all(), f"no finite gradient of {name}"
        (other := self.make(classes=5, width=0.25, depth=0.5)).load_state_dict(net.state_dict())
        assert torch.equal(other.eval()(images), net.eval()(images)), "its state is not whole"


class AttentionContract:
    """What every attention of the Long Range Arena promises: ``layer(x, mask=mask)`` maps (B, n, D) to (B, n, D).

    ``mask`` (B, n) is True for a token and False for padding; without one, all are tokens. Outputs at padding may be anything finite.
    """

    length, dim, heads = 24, 8, 2

    def make(self, dim: int, heads: int, *, max_length: int, dropout: float = 0.0) -> nn.Module:
        """A new layer, with arguments of its own that suit 24 tokens."""
        raise NotImplementedError

    def _layer(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.make(self.dim, self.heads, max_length=self.length, dropout=0.5).double().eval()

    def _tokens(self, batch: int, length: int, seed: int = 1) -> Tensor:
        draw = torch.Generator().manual_seed(seed)
        return torch.randn(batch, length, self.dim, generator=draw, dtype=torch.float64)

    def _close(self, found: Tensor, wanted: Tensor) -> None:
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("length", [1, 2, 7, 16, 24])
    def test_any_length_has_the_shape_of_its_input(self, length: int) -> None:
        x = self._tokens(3, length).requires_grad_()
        y = self._layer()(x)
        assert y.shape == x.shape and y.dtype == torch.float64 and y.isfinite().all()
        assert torch.autograd.grad((y * self._tokens(3, length, 2)).sum(), x)[0].any(), "no gradient"
        assert self._layer().float()(x.detach().float()).dtype == torch.float32

    @pytest.mark.parametrize("length", [1, 5, 8, 13, 23, 24])
    def test_padding_at_the_end_changes_nothing(self, length: int) -> None:
        net, x = self._layer(), self._tokens(2, self.length)
        mask = (torch.arange(self.length) < length).expand(2, -1)
        self._close(net(x, mask=mask)[:, :length], net(x[:, :length]))

    def test_what_padding_holds_changes_no_token_and_what_a_token_holds_does(self) -> None:
        net, x = self._layer(), self._tokens(2, 17)
        mask = torch.arange(17) % torch.tensor([[3], [5]]) != 1
        other = torch.where(mask[..., None], x, 3 + 5 * self._tokens(2, 17, 2))
        y, moved = net(x, mask=mask), net(other, mask=mask)
        self._close(moved[mask], y[mask])
        assert moved.isfinite().all()
        changed = torch.where(mask[..., None], x + 1, x)
        assert not torch.allclose(net(changed, mask=mask)[mask], y[mask])

    @pytest.mark.parametrize("masked", [False, True])
    def test_a_sequence_does_not_see_its_batch(self, masked: bool) -> None:
        net, x = self._layer(), self._tokens(3, 17)
        mask = torch.arange(17) < torch.tensor([[17], [5], [9]]) if masked else None
        both = net(x, mask=mask)
        for i in range(3):
            alone = net(x[i : i + 1], mask=None if mask is None else mask[i : i + 1])
            seen = slice(None) if mask is None else mask[i]
            self._close(both[i][seen], alone[0][seen])

    def test_it_can_be_trained_and_changes_neither_its_input_nor_itself(self) -> None:
        net, x = self._layer().train(), self._tokens(2, self.length).requires_grad_()
        before = [one.detach().clone() for one in (x, *net.parameters())]
        y = net(x, mask=torch.arange(self.length) < torch.tensor([[self.length], [self.length // 2]]))
        assert y.shape == x.shape and y.isfinite().all()
        (y * self._tokens(2, self.length, 2)).sum().backward()
        for (name, one), old in zip((("x", x), *net.named_parameters()), before):
            assert one.grad is not None and one.grad.isfinite().all(), f"no finite gradient of {name}"
            assert torch.equal(one, old), f"{name} changed"


class InitialisationContract:
    """What every initialisation promises (:mod:`relearn.methods.initialised`): it sets parameters and leaves no other trace."""

    draws = False  # whether its result depends on the seed

    def initialise(self, model: nn.Module, loss: Any, batches: Any, *, seed: int) -> Any:
        """Call the method, with its own arguments added."""
        raise NotImplementedError

    def _images(self) -> Any:
        draw = torch.Generator().manual_seed(7)
        while True:
            yield torch.rand(12, 3, 8, 8, generator=draw), torch.randint(0, 3, (12,), generator=draw)

    def test_it_sets_parameters_and_leaves_no_other_trace(self) -> None:
        results = []
        for start in (3, 4):
            model = small_network(0)
            list(model.modules())[1].train()  # a mode of its own, to be kept
            before = copy.deepcopy(model)
            torch.manual_seed(start)  # what the global generator holds has no influence
            states = random_states()
            done = self.initialise(model, nn.functional.cross_entropy, self._images(), seed=5)
            assert random_states() == states, "a global random state changed"
            assert [one.training for one in model.modules()] == [one.training for one in before.modules()]
            assert all(torch.equal(a, b) for a, b in zip(model.buffers(), before.buffers()))
            now, old = list(model.parameters()), list(before.parameters())
            assert all(a.shape == b.shape and a.grad is None and a.isfinite().all() for a, b in zip(now, old))
            assert all(a.dtype == b.dtype and a.requires_grad == b.requires_grad for a, b in zip(now, old))
            assert any(not torch.equal(a, b) for a, b in zip(now, old)), "no parameter changed"
            assert not hooked(model)
            results.append((done, now))
        (one, weights), (other, others) = results
        assert one == other and all(torch.equal(a, b) for a, b in zip(weights, others))
        assert one.outcome == "ok" and one.outcome_step is None

    def test_the_seed_decides_what_it_draws(self) -> None:
        for seed, model in enumerate(models := [small_network(0), small_network(0)]):
            self.initialise(model, nn.functional.cross_entropy, self._images(), seed=seed)
        pairs = zip(*(model.parameters() for model in models))
        assert all(torch.equal(a, b) for a, b in pairs) != self.draws, "does `draws` say the truth?"
