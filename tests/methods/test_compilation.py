"""Compiled steps: the same numbers, the same names, and a plain step where the compiler gives up."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relearn.methods.compilation import compiled, plainly
from relearn.methods.fit import fit, plain_gradient

CPU = torch.device("cpu")


def toy():
    torch.manual_seed(0)
    x = torch.randn(10, 5, dtype=torch.float64)
    net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    return net, x, torch.randint(0, 3, (10,))


def test_a_compiled_step_has_the_gradient_of_the_plain_one_and_really_went_through_the_compiler():
    """With a backend that only passes the graph on: what is tested is our part, not the code generator."""
    graphs = []

    def passing(graph, inputs):
        graphs.append(graph)
        return graph.forward

    net, x, y = toy()
    truth, _, _ = toy()
    names = list(net.state_dict())
    with compiled(net, True, CPU, backend=passing) as guard:
        value = guard(plain_gradient)(net, cross_entropy, (x, y))
        assert list(net.state_dict()) == names
    assert graphs and net._compiled_call_impl is None
    torch.testing.assert_close(value, plain_gradient(truth, cross_entropy, (x, y)))
    for ours, theirs in zip(net.parameters(), truth.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_a_compiler_that_gives_up_costs_one_line_and_no_number():
    def broken(graph, inputs):
        raise NotImplementedError("no such operation\nand a long tale")

    net, x, y = toy()
    truth, _, _ = toy()
    with compiled(net, True, CPU, backend=broken) as guard:
        step = guard(plain_gradient)
        with pytest.warns(
            RuntimeWarning, match="^not compiled, running in eager mode: .*no such operation[^\n]*$"
        ):
            value = step(net, cross_entropy, (x, y))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            step(net, cross_entropy, (x, y))  # once only
    truth_value = plain_gradient(truth, cross_entropy, (x, y))
    assert torch.equal(value, truth_value)


def test_other_errors_are_not_swallowed():
    net, x, _ = toy()
    with (
        compiled(net, True, CPU, backend="eager") as guard,
        pytest.raises(ZeroDivisionError),
    ):
        guard(plain_gradient)(net, lambda z: 1 / 0, (x,))
    assert net._compiled_call_impl is None


def test_an_evaluation_runs_plainly_and_training_is_compiled_again_afterwards():
    graphs = []

    def passing(graph, inputs):
        graphs.append(graph)
        return graph.forward

    net, x, _ = toy()
    with compiled(net, True, CPU, backend=passing):
        with plainly(net):
            net(x)
        assert graphs == []
        net(x)
        assert len(graphs) == 1


def test_every_model_of_a_long_process_is_compiled():
    """Torch keeps at most eight variants of one function."""
    graphs = []

    def passing(graph, inputs):
        graphs.append(graph)
        return graph.forward

    for _ in range(10):
        net, x, y = toy()
        with compiled(net, True, CPU, backend=passing) as guard:
            guard(plain_gradient)(net, cross_entropy, (x, y))
    assert len(graphs) == 10


@pytest.mark.parametrize("wanted", [False, "auto"])
def test_on_a_cpu_auto_changes_nothing(wanted):
    net, _, _ = toy()
    with compiled(net, wanted, CPU) as guard:
        assert guard(plain_gradient) is plain_gradient and net._compiled_call_impl is None
    with pytest.raises(ValueError, match="compile: found 'always', allowed are False, True, 'auto'"):
        compiled(net, "always", CPU).__enter__()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_run_ends_where_the_plain_one_does():
    ends = []
    for wanted in (False, True):
        net, x, y = toy()
        fit(net, (x, y), loss=cross_entropy, epochs=3, batch_size=4, lr=0.1, compile=wanted)
        ends.append(net[0].weight.detach().clone())
    torch.testing.assert_close(*ends, rtol=1e-9, atol=1e-12)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")
def test_on_cuda_auto_compiles():
    net, x, y = toy()
    net, x, y = net.float().cuda(), x.float().cuda(), y.cuda()
    truth = nn.Sequential(*toy()[0]).float().cuda()
    settings = dict(loss=cross_entropy, epochs=3, batch_size=4, lr=0.1)
    fit(net, (x, y), compile="auto", **settings)
    fit(truth, (x, y), **settings)
    torch.testing.assert_close(net[0].weight, truth[0].weight, rtol=1e-4, atol=1e-5)
