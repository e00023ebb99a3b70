"""Networks trace as one graph: torch.export with a dynamic batch, torch.compile with fullgraph, ONNX where its packages are."""

import pytest
import torch

from relearn.models import timm_names

SIZE = dict(img_size=16, patch_size=2, num_classes=3, embed_dim=8, depths=(1, 2), num_heads=(2, 4))
NETS = {
    "lipsformer_swin_tiny": SIZE | dict(window=4),  # the second block of a stage has shifted windows
    "lipsformer_cswin_tiny": SIZE | dict(window=(1, 2)),
    "cswin_tiny": SIZE | dict(split=(1, 2)),
    "residual_deit_tiny": dict(img_size=16, patch_size=8, num_classes=3, embed_dim=8, depth=1, num_heads=2),
    "lrformer_depth6": dict(img_size=16, patch_size=8, num_classes=3, embed_dim=8, depth=1, num_heads=2),
    "cvt_13": SIZE,
}
FAST = ("lipsformer_cswin_tiny", "residual_deit_tiny")
EVERY = [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in NETS]
LAYOUT = "the exporter gives torch's fused attention another memory layout than the one it traced"
ONNX = [
    pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=LAYOUT))
    if "lipsformer_swin" in name
    else name
    for name in NETS
]
quiet = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)


@pytest.fixture
def made(timm):
    timm_names.register()

    def build(name):
        torch.manual_seed(0)
        quick = dict(depths=(1,), num_heads=(2,), window=(1,))  # one block of both kinds of stripes
        size = NETS[name] | (quick if name == "lipsformer_cswin_tiny" else {})
        return timm.create_model(name, **size).eval()

    return build


@quiet
@pytest.mark.parametrize("name", EVERY)
def test_export_with_a_dynamic_batch(made, name):
    net = made(name)
    graph = torch.export.export(
        net, (torch.rand(3, 3, 16, 16),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)
    )
    images = torch.rand(5, 3, 16, 16)
    torch.testing.assert_close(graph.module()(images), net(images))


@quiet
@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_one_graph_in_training(made, name):
    torch._dynamo.reset()
    net = made(name).train()
    compiled = torch.compile(net, fullgraph=True, backend="eager")
    images = torch.rand(3, 3, 16, 16)
    gradients = [
        torch.autograd.grad(call(images).square().sum(), [*net.parameters()]) for call in (net, compiled)
    ]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@quiet
@pytest.mark.slow
@pytest.mark.parametrize("name", ONNX)
def test_onnx_with_a_dynamic_batch(made, name, tmp_path):
    pytest.importorskip("onnxscript", reason="pip install onnxscript")
    reference = pytest.importorskip("onnx.reference")
    net = made(name)
    program = torch.onnx.export(
        net,
        (torch.rand(3, 3, 16, 16),),
        dynamo=True,
        dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
        verbose=False,
    )
    program.save(str(tmp_path / "net.onnx"))
    images = torch.rand(2, 3, 16, 16)
    (found,) = reference.ReferenceEvaluator(str(tmp_path / "net.onnx")).run(
        None, {program.model.graph.inputs[0].name: images.numpy()}
    )
    torch.testing.assert_close(torch.from_numpy(found), net(images).detach(), rtol=1e-3, atol=1e-4)
