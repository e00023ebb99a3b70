"""A scratch checkout in which jobs are pretended; workflow, engines and verbs are the real ones."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from relearn.params.reading import ParamsError
from relearn.studies import parameters

from ..studies.freelb.staleness import RUNS
from .fake_job import lay

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
PARTS = (
    "Snakefile",
    "workflow",
    "profiles",
    "params.yaml",
    "params",
    "dvc.yaml",
    ".dvcignore",
    ".dvc/config",
    "src/relearn",
    "src/snakemake_logger_plugin_relearn",
)

# A small grid: every kind of run is there, few of each; one network is attacked in every study, the other in one.
ALONE = "SENet18"
VGG, RES = "VGG-19-BN", "ResNet-110-BN"
FEW: dict[str, Any] = {
    "poisoning.pretrain.substitutes.architectures": [ALONE],
    "poisoning.pretrain.victims.architectures": [ALONE, "ResNet18"],
    "poisoning.studies.transfer": {
        "feature_collision": [
            *("deep_knn", "l2_outliers", "one_class_svm", "random_eviction"),
            *("spectral_signatures", "activation_clustering", "epic"),
        ],
        "convex_polytope": ["deep_knn", "random_eviction", "adversarial_training", "partition_aggregation"],
        "bullseye_polytope": [],
        "gradient_matching": [],
        "adaptive_polytope": [],
    },
    "poisoning.studies.dropout.attacks": ["feature_collision"],
    "poisoning.studies.dropout.victims": [ALONE],
    "poisoning.studies.overlap.substitutes.architectures": [ALONE],
    "poisoning.studies.overlap.victims": [ALONE],
    "poisoning.studies.end_to_end.substitutes.architectures": [ALONE],
    "poisoning.studies.end_to_end.defences": ["mixup", "cutmix"],
    "poisoning.studies.end_to_end.victims": [ALONE],
    "poisoning.studies.imbalance.victims": [ALONE],
    "poisoning.studies.white_box.attacks": ["white_box_collision", "white_box_watermark"],
    "poisoning.studies.white_box.victim": ALONE,
    "poisoning.studies.feature_plane.victim": ALONE,
    "gradinit.networks": {
        "kaiming": [VGG, RES, "ResNet-1202-BN"],
        "gradinit": [VGG, RES],
        "fixup": ["FixUpResNet-110"],
        **{
            name: [VGG]
            for name in (
                *("metainit", "metainit_random_sign", "extra_epoch_constant", "lsuv"),
                *("gradinit_overlap", "gradinit_free", "gradinit_penalty", "gradinit_fix_bn"),
            )
        },
        **{
            name: []
            for name in (
                *("metainit_real_sign", "extra_epoch_warmup", "gradinit_only_bn"),
                *("xavier", "orthogonal", "none", "gradinit_tuned"),
            )
        },
    },
    "gradinit.imagenet.networks": {
        "kaiming": [],
        "fixup": [],
        "metainit": [],
        "gradinit": ["timm-ResNet-50-BN"],
    },
    "gradinit.adamw_networks": [RES],
    "gradinit.scalar_networks": [VGG],
    "gradinit.first_steps.networks": [VGG],
    "gradinit.first_steps.initialisations": ["kaiming", "gradinit"],
    "gradinit.probe.networks": [VGG, RES],
    "gradinit.translation.runs": [
        "post_ln/xavier/adam",
        "post_ln/gradinit/adam",
        "post_ln/gradinit_sgd/sgd",
        "w_skip/admin/adam_warmup",
    ],
    "gradinit.translation.grid": {"runs": ["post_ln/gradinit"], "lr": [2.0e-3], "beta2": [0.98]},
    "gradinit.translation.probe.runs": ["post_ln/xavier"],
    "l2_attention.warmup.gamma": [1.0, 2.0],
    "l2_attention.depths": {
        "warmup": {
            **{name: [1] for name in ("lstm", "dp", "l2_tied")},
            **{name: [2] for name in ("l2", "l2_matched", "contractive")},
        },
        "fixed": {"dp": [2], "dp_l2_start": [2], "l2_tied": [2], "contractive": [2]},
    },
    "l2_attention.figure_2.lengths": [100, 1000],
    "l2_attention.figure_7.lengths": [10],
    "l2_attention.inversion.attentions": ["dp", "l2_tied"],
    "l2_attention.inversion.lengths": [16],
    "l2_attention.inversion.dims": [16, 64],
    "lipsformer.count.networks": ["Swin-T", "CSwin-T", "LipsFormer-Swin-T"],
    "lipsformer.grid.ablation.variants": ["base", "warmup"],
    "lipsformer.grid.pairs.networks": ["Swin-T", "LipsFormer-Swin-S", "LipsFormer-Swin-B", "CSwin-T"],
    "lipsformer.grid.constrained.networks": ["LipsFormer-Swin-S"],
    **{
        f"lipsformer.grid.sizes.{size}.average": 0.9 for size in "TSBL"
    },  # so that the average can be tested again
    "lipsformer.retest.networks": ["CSwin-T"],
    "layer_scale.grid.depths": [12],
    "layer_scale.grid.residuals": ["pre_norm", "fixup", "rezero_epsilon"],
    "layer_scale.grid.drop_paths.variants": ["linear"],
    "layer_scale.grid.class_tokens.variants": ["class_attention"],
    "lrformer.grid.variants": ["dot_dense", "lrsa_gp"],
    **{
        f"long_short.train_lra.tasks.{task}.attentions": ["full", kind]
        for task, kind in {
            "listops": "long_short_best",
            "text": "window",
            "retrieval": "linformer",
            "image": "long_short",
            "pathfinder": "dynamic",
        }.items()
    },
    "long_short.prepare_char_stream.datasets": ["pydoc_topics"],
    "long_short.train_long_char_lm.seeds": [],
    "long_short.train_long_char_lm.variants": ["dual_norm", "large"],
    "long_short.train_long_char_lm.large_datasets": ["pydoc_topics"],
    "long_short.grid.networks": ["CvT-LS-13", "ViL-LS-Medium", "DeiT-S", "ResNet-50"],
    "long_short.grid.similarity": ["CvT-LS-13"],
    "robustness.withstand.networks": ["CvT-LS-13", "ResNet-50"],
    "freelb.seeds": [0],
    "freelb.ensemble.members": 1,
    "freelb.ensemble.csqa_members": 1,
    "freelb.finetune.runs": RUNS,
    "freelb.train_images_adversarially.methods": ["vanilla", "freelb"],
}


class Scratch:
    """A copy of the checkout in a separate folder, with a stand-in for `relearn` on PATH."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for part in PARTS:
            source, target = CHECKOUT / part, root / part
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        self.set(FEW)
        (root / "results").mkdir()
        (root / ".dvc" / "config.local").write_text("[core]\n    no_scm = true\n")
        program = root / "bin" / "relearn"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE / "fake_job.py"}" "$@"\n')
        program.chmod(0o755)
        self.calls_file = root / "calls.txt"
        self.env = {
            **os.environ,
            "PYTHONPATH": f"{root / 'src'}",
            "PATH": os.pathsep.join(
                [str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
            ),
            "PRETEND_CALLS": str(self.calls_file),
            "OMP_NUM_THREADS": "1",
            "RELEARN_WARM": "off",  # jobs are pretended: there is nothing to import for them
            "XDG_CACHE_HOME": str(root / "cache"),
            "HOME": str(root),  # neither engine reads or writes the settings of the person who runs the tests
        }

    def run(
        self, *command: str, text: str | None = None, ok: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the scratch checkout."""
        done = subprocess.run(
            command, cwd=self.root, env=self.env, input=text, capture_output=True, text=True, check=False
        )
        assert not ok or done.returncode == 0, (
            f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        )
        return done

    def ask(self, edits: list[dict[str, Any]]) -> list[dict[str, list[str]]]:
        """What both engines find stale after each edit of a finished checkout."""
        done = self.run(sys.executable, str(HERE / "engines.py"), text=json.dumps(edits))
        answers: list[dict[str, list[str]]] = json.loads(done.stdout)
        return answers

    def promise_render(self) -> None:
        """Tell the pretended render which files its rule promises."""
        self._engines("engines.promise(engines.jobs.plan())")

    def finish(self) -> None:
        """Make every file of every job, with Snakemake's notes, in one process and without starting the jobs."""
        self._engines("engines.finish_jobs()")

    def _engines(self, call: str) -> None:
        env = {**self.env, "PYTHONPATH": os.pathsep.join([self.env["PYTHONPATH"], str(HERE)])}
        code = f"import engines; {call}"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=self.root, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-4000:]

    def values(self) -> dict[str, Any]:
        """What its params.yaml says."""
        values: dict[str, Any] = yaml.safe_load((self.root / "params.yaml").read_text())
        return values

    def ran(self) -> Counter[str]:
        """How many jobs of each step ran since the last question; `render` is one of no study."""
        words = [line.split() for line in self.calls()]
        return Counter(line[0] if line[0] == "render" else line[1] for line in words)

    def calls(self) -> list[str]:
        """The commands that ran since the last question: their words behind `relearn`."""
        lines = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        self.calls_file.unlink(missing_ok=True)
        return sorted(lines)

    def set(self, values: dict[str, Any]) -> None:
        """Write values of params.yaml by their dotted keys."""
        path = self.root / "params.yaml"
        params = self.values()
        lay(values, params)
        path.write_text(yaml.safe_dump(params, sort_keys=False))

    def allows(self, values: dict[str, Any]) -> bool:
        """Whether these values, by their dotted keys, may stand together in params.yaml."""
        params = self.values()
        lay(values, params)
        try:
            parameters.load(self.root / "params.yaml", overrides=params)
        except ParamsError:
            return False
        return True

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text()
        assert text.count(old) >= 1, f"{path} holds no {old!r}"
        (self.root / path).write_text(text.replace(old, new, 1))


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch(tmp_path / "checkout")


@pytest.fixture
def scratch_at() -> type[Scratch]:
    """Make a scratch checkout in a folder of one's choice."""
    return Scratch
