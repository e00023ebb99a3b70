"""Input and output of the step ``train``: fine-tuning set, poisons, rejected poisons, and the final record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relearn.studies.poisoning.steps.train import Settings


class VictimSet:
    """The fine-tuning set, its poisons, and the targets whose poisons violate the threat model."""

    def __init__(self, settings: Settings, inputs: dict[str, list[Path]]) -> None:
        from safetensors.torch import load_file

        from relearn.data.arrays import load_prepared
        from relearn.measures.attack_success import ThreatModel, rejections

        self.data = load_prepared(inputs["data"][0])
        self.trials = settings.of(self.data)
        self.images, self.labels = self.data.fine_tune()
        self.poisons, self.threat, self.rejected = None, None, {}
        if "poisons" not in inputs:
            return
        if settings.eps is None or settings.knowledge is None:
            raise ValueError("eps, knowledge: found null, allowed with --input poisons: both")
        crafted = load_file(inputs["poisons"][0])
        wanted = len(self.trials.target_index)
        self.poisons = crafted["poisons"][:wanted]  # a study may use only the first targets
        if len(self.poisons) != wanted:
            raise ValueError(
                f"{inputs['poisons'][0]}: poisons of {len(self.poisons)} targets, needed: {wanted}"
            )
        self.threat = ThreatModel(
            knowledge=settings.knowledge,
            eps=settings.eps,
            poisons_count=settings.poisons,
            class_count=int(self.labels.bincount().max()),
            fine_tune_count=len(self.labels),
            setting="end_to_end" if settings.setting == "end_to_end" else "transfer",
        )
        bases = crafted.get("centres", self.trials.base_images.expand_as(self.poisons))[:wanted]
        self.rejected = rejections(self.poisons, bases, self.threat)
        for t in crafted["rejected"][:wanted].nonzero().flatten().tolist() if "rejected" in crafted else ():
            self.rejected.setdefault(t, "not finite when crafted")

    @property
    def bases(self) -> Any:
        """Rows of the set that the poisons replace; (k,)."""
        return self.trials.base_positions_in_fine_tune

    def poisoned(self, t: int) -> Any:
        """Images of the set with the poisons of target t; (n, C, H, W) uint8."""
        images = self.images.clone()
        if self.poisons is not None:
            images[self.bases] = self.poisons[t]
        return images

    def notes(self) -> list[str]:
        numbers = self.trials.target_index.tolist()
        return [f"target {numbers[t]} rejected, counted as failed: {why}" for t, why in self.rejected.items()]


def kept_weights(path: Path) -> tuple[Any, Any, list[dict[str, Any]]]:
    """Read a filter's file: weights (n, T, V), weights of the clean controls (n, 1 or T, V), and a description of each variant.

    ``keep`` in the file is bool or a number of copies.
    """
    from safetensors.torch import load_file

    kept = load_file(path)
    variants: list[dict[str, Any]] = [{"k": int(k) or ""} for k in kept["k"]]
    if "class_size" in kept:
        largest = int(kept["class_size"].max())
        for variant, size, copies in zip(
            variants, kept["class_size"].tolist(), kept["replicated"].tolist(), strict=True
        ):
            variant |= {"class_size": size, "class_size_frac": size / largest, "replicated": int(copies)}
    keep, control = (kept[name].permute(2, 1, 0).float() for name in ("keep", "control"))
    return keep, control, variants


def finish(
    run,
    rows: list[dict[str, Any]],
    given: VictimSet,
    outcome: str,
    outcome_step: int | None,
    own: tuple[str, ...] = (),
) -> None:
    """Write the record: each metric is the mean over the chosen rows that have a value; ``own``: more columns that are metrics."""
    chosen = [row for row in rows if row["chosen"]]
    metrics = {
        "attack_success_frac": "success",
        "control_success_frac": "control_success",
        "test_accuracy_frac": "test_accuracy_frac",
        "train_accuracy_frac": "train_accuracy_frac",
        "poisons_fitted_frac": "poisons_fitted_frac",
        **dict(zip(own, own)),
    }
    found = {name: _mean(chosen, column) for name, column in metrics.items()}
    run.finish(
        {
            **{name: value for name, value in found.items() if value is not None},
            "targets_count": len(chosen),
            "rejected_count": len(given.rejected),
        },
        trials=(list(rows[0]), [list(row.values()) for row in rows]),
        outcome=outcome,
        outcome_step=outcome_step,
        outcome_reason="loss not finite" if outcome == "diverged" else None,
        threat_model=given.threat.to_dict() if given.threat else None,
        notes=given.notes(),
    )


def _mean(rows: Sequence[Mapping[str, Any]], column: str) -> float | None:
    values = [row[column] for row in rows if row.get(column, "") != ""]
    return sum(values) / len(values) if values else None
