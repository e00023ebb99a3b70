"""A virtual environment with the packages of a GPU node and nothing else, made from links to those that are installed here.

python bare_environment.py FOLDER
"""

import re
import sys
import venv
from importlib import metadata
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement

NODE = (
    *("torch", "torchvision", "timm", "transformers", "tokenizers", "safetensors", "scikit-learn"),
    *("scipy", "pandas", "filelock", "tqdm", "sacrebleu"),
)


def closure(names: tuple[str, ...] = NODE) -> dict[str, metadata.Distribution]:
    """The named distributions and all that they require, without extras."""
    found: dict[str, metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            if name in names:
                raise
            continue  # a requirement of other platforms
        for text in found[name].requires or ():
            one = Requirement(text)
            if one.marker is None or one.marker.evaluate({**default_environment(), "extra": ""}):
                waiting.append(one.name)
    return found


def make(folder: Path) -> Path:
    """Make the environment and return its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    there = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    for distribution in closure().values():
        for file in distribution.files or ():
            top = file.parts[0]
            source = Path(str(distribution.locate_file(top)))
            if top not in ("..", "__pycache__") and source.exists() and not (there / top).exists():
                (there / top).symlink_to(source)
    return folder / "bin" / "python"


if __name__ == "__main__":
    print(make(Path(sys.argv[1])))
