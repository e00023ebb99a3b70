"""One line that makes ``import timm`` and transformers' models work with a CPU build of torch.

    import relearn.torchvision_ready
    import timm

It calls :func:`relearn.torchvision_schema.declare` at import. If torchvision's compiled library fits torch, it
changes nothing. The package index has no CPU build of torchvision for Linux on x86, so an environment with a CPU torch
needs this line, or a torchvision from PyTorch's own index.
"""

from relearn.torchvision_schema import declare

declare()
