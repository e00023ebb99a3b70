"""evaluate_robustness: measure a trained network's accuracy on corrupted, attacked and derived test images.

Settings:

- images: number of images per set, evenly spaced; 0: all.
- corruptions (names of ``relearn.data.corruptions``, "all", or []) and severities: generated from the test images (or those of val)
  by this package. If ``sets`` has ``c`` or ``cifar_c`` (the released arrays of CIFAR-10-C or -100-C), these corruptions are read from
  there; [] then means all.
- sets: name → folder of RELEARN_MIRROR, see :mod:`relearn.studies.robustness.steps.folder_sets`; "" or no entry skips a set.
- protocol of the sets (may be null without sets): size, crop_ratio (crop over resized shorter side), cropped_ratio (the same for c
  and nine, which are published as crops), crop_mode (center | squash; default center), interpolation, batch_size, on_bad_image and
  on_missing_class (fail | skip).
- pgd: null, or eps (in [0,1] pixel scale, ascending), steps, restarts, images, checks (for masked gradients).
- autoattack: null, or eps, images.
- network: null if the file describes its network; for a checkpoint {"name" in timm's registry, "classes", "average", …arguments of the
  network}, with images of side protocol.size.

Inputs: network (model.safetensors of `train_vision`, or a checkpoint); data (output of `prepare_images`, or of `list_imagenet`, whose
val is then the set val; optional if ``sets`` are given); reference (sets.csv of another network's run on the same images: mCE is
relative to it); real (labels in ReaL's format; default: the official ones).

Outputs: sets.csv (set, corruption, severity, samples_count, correct_count, accuracy_frac, protocol) with the sets test (clean),
corrupted (generated) and those of the folders; attacks.csv (attack, norm, eps, steps, restarts, samples_count, accuracy_frac,
protocol); bad_images.csv (set, file, fault) with the images that could not be decoded and were left out.

Metrics: parameters_count; acc_frac of test, else of val; corruption_acc_frac, the mean over corruptions of the mean over severities, on
corrupted, else on c or cifar_c; mce_frac, relative to AlexNet if all of c was measured, or to ``reference`` (if both apply, the latter
is reference_mce_frac; there is none if the reference diverged or makes no errors); pgd_acc_frac at the largest ε, and one for each ε;
{set}_acc_frac for the folders' sets; nine_gap_frac. Outcome as in `train_vision`: diverged (logits not finite), not_converged
(accuracy on the test images no better than chance).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relearn.runs.settings import rest
from relearn.steps.csv_rows import write_rows
from relearn.studies.robustness.steps.attacks import ATTACKS
from relearn.studies.robustness.steps.image_sets import SETS, NotFinite
from relearn.studies.robustness.steps.measured import Measured, Measurements, measure

if TYPE_CHECKING:
    from relearn.models.vision_classifier import VisionClassifier

NEEDS_TORCH = True
BAD = ("set", "file", "fault")


@dataclass(frozen=True, kw_only=True)
class Network:
    name: str
    classes: int
    average: bool
    arguments: Mapping[str, Any] = rest()


@dataclass(frozen=True, kw_only=True)
class Settings(Measurements):
    sets: Mapping[str, str]
    network: Network | None


def run(run, settings: Settings, inputs: dict[str, list[Path]], device: str, precision: str) -> None:
    from relearn.data.arrays import load_prepared
    from relearn.data.class_folders import listed_root
    from relearn.runs.console import Progress

    net = opened(inputs["network"][0], settings).to(device)
    sets = {name: _folder(name, where) for name, where in settings.sets.items() if where}
    given = _first(inputs, "data")
    if given is not None and given.suffix == ".json":
        sets, given = {"val": listed_root(given) / "val", **sets}, None
    data = None if given is None else load_prepared(given)
    try:
        with Progress("evaluate_robustness") as progress:
            found = measure(
                net,
                settings,
                sets,
                test=None if data is None else data.test(),
                named="" if data is None else data.dataset,
                reference=_first(inputs, "reference"),
                real_labels=_first(inputs, "real"),
                seed=run.seed,
                precision=precision,
                progress=progress,
            )
    except NotFinite as fault:
        _write(run, Measured())
        run.finish({}, outcome="diverged", outcome_reason=str(fault))
        return
    _write(run, found)
    learned = {} if found.learned else {"outcome": "not_converged", "outcome_reason": "no better than chance"}
    run.finish(found.metrics, notes=found.notes, **learned)


def opened(path: Path, settings: Settings) -> VisionClassifier:
    """Load a network from a file that describes it, or from a checkpoint of the named network.

    Raises:
        ValueError: a file without a description and no name given, weights that do not fit, or input that the readers reject.
    """
    from relearn.models import checkpoints, vision

    network = settings.network
    if network is None:
        if path.suffix != ".safetensors":
            raise ValueError(
                f"{path}: does not say what network it holds; allowed: network, or a file of relearn"
            )
        return vision.FILE.load(path)
    if settings.protocol is None:
        raise ValueError("protocol is null; allowed with network: a protocol, whose size is the network's")
    return checkpoints.load(
        network.name,
        path,
        classes=network.classes,
        size=settings.protocol.size,
        average=network.average,
        **network.arguments,
    )


def _folder(name: str, where: str) -> Path:
    from relearn.data.mirror import mirror_of

    folder = mirror_of(where)
    if folder is None:
        raise ValueError(
            f"sets.{name}: {where}: no such folder here; allowed: RELEARN_MIRROR names one that holds it"
        )
    return folder


def _first(inputs: Mapping[str, list[Path]], name: str) -> Path | None:
    return next(iter(inputs.get(name, [])), None)


def _write(run, found: Measured) -> None:
    write_rows(run.output("sets.csv"), SETS, (row.cells() for row in found.rows))
    write_rows(run.output("attacks.csv"), ATTACKS, (row.cells() for row in found.attacks))
    write_rows(run.output("bad_images.csv"), BAD, ((one.set, one.file, one.fault) for one in found.bad))
