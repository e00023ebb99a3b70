"""The predicates of zhu2022, chapter 4, on trained Transformers; they compare the best BLEU of each training run.

An initialisation may have several recipes without warm-up (the grid of figure 4.3, and the recipe of table 4.10). For each
initialisation the recipe with the highest mean counts, as in table 4.10; it is chosen by the runs that decide, so verdicts are
corrected for the number of recipes. A training run that diverges before its first
evaluation has BLEU 0.
"""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial
from statistics import fmean

from relearn.report.comparisons import Finding, finding
from relearn.report.quantities import Evidence
from relearn.report.seeds import Sample, difference, mean, sample
from relearn.report.verdicts import Above, Below

BLEU = "train_translation.bleu_best"
LOSS = "train_translation.valid_loss_nats"
WITHIN = 0.5  # BLEU
NO_WARMUP = ("adam", "adam_lr*")
WARMUP = ("radam_warmup", "adam_warmup")
UNDER_SGD = {"network": "post_ln", "initialisation": "gradinit_sgd*"}


def best(evidence: Evidence, network: str, start: str, recipes: tuple[str, ...]) -> tuple[str, Sample, int]:
    """The recipe with the highest mean BLEU among those that were run, its BLEU by seed, and their number; empty if none was run."""
    where = {"network": network, "initialisation": start, "recipe": list(recipes)}
    found = {}
    for recipe in sorted({run.labels["recipe"] for run in evidence.of(BLEU, where)}):
        own = sample(evidence, BLEU, where, {"recipe": recipe}, network=network, lost=0.0)
        if own.values:
            found[recipe] = own
    if not found:
        return "", Sample(network, {}, ()), 1
    name = max(found, key=lambda recipe: mean(found[recipe]))
    return name, found[name], len(found)


def no_warmup_adam(evidence: Evidence) -> Finding:
    """BLEU(GradInit, no warm-up) - BLEU(Xavier, warm-up) >= -0.5, and BLEU(Xavier, no warm-up) - BLEU(GradInit, no warm-up) < 0.

    "Within 0.5 of the warm-up run" is read as "at most 0.5 below it". The architecture of the Post-LN network is unchanged.
    """
    ours_recipe, ours, ours_count = best(evidence, "post_ln", "gradinit", NO_WARMUP)
    warm_recipe, warm, warm_count = best(evidence, "post_ln", "xavier", WARMUP)
    cold_recipe, cold, cold_count = best(evidence, "post_ln", "xavier", NO_WARMUP)
    near, worse = "GradInit without warm-up - Xavier with", "without warm-up: Xavier - GradInit"
    return finding(
        {
            near: difference(
                *(near, ours, warm, Above(-WITHIN, strict=False)),
                unit="bleu",
                role="translation",
                notes=[f"recipes: GradInit {ours_recipe}, Xavier {warm_recipe}"],
                among=warm_count,
                own=ours_count,
            ),
            worse: difference(
                *(worse, cold, ours, Below(0.0)),
                unit="bleu",
                role="translation",
                notes=[f"recipes: Xavier {cold_recipe}, GradInit {ours_recipe}"],
                among=cold_count,
                own=ours_count,
            ),
        }
    )


def no_warmup_sgd(evidence: Evidence) -> Finding:
    """BLEU(GradInit, SGD) - BLEU(Admin, SGD) > 0, without warm-up and without clipping; Admin uses its w_skip architecture.

    Both sides choose their rate on held-out seeds: Admin in its own search, GradInit among the rates that were run, by the lowest
    validation loss of its search for tau. GradInit at the other rates is shown and does not decide.
    """
    recipe, theirs, among = best(evidence, "w_skip", "admin", ("sgd*",))
    found = {
        start: best(evidence, "post_ln", start, ("sgd",))[1]
        for start in sorted({run.labels["initialisation"] for run in evidence.of(BLEU, UNDER_SGD)})
    }
    losses = {start: _searched_loss(evidence, start) for start in found}
    chosen = min(found, key=lambda start: losses[start], default="")
    ours = found.pop(chosen, Sample("post_ln", {}, ()))
    name = "SGD: GradInit - Admin"
    against = partial(difference, right=theirs, claimed=Above(0.0), unit="bleu", role="translation")
    notes = [f"Admin's recipe: {recipe}", *([f"GradInit's initialisation: {chosen}"] if found else [])]
    main = against(name, ours, notes=notes, among=among)
    others = [against(f"SGD: {start} - Admin", one, decides=False) for start, one in found.items()]
    return finding({name: main}, others)


def _searched_loss(evidence: Evidence, start: str) -> float:
    """The lowest validation loss of the search for a start's tau, mean over the seeds of the search; infinite without a search."""
    where = {"network": "post_ln_tuning", "initialisation": start}
    losses = defaultdict(list)
    for run in evidence.of(LOSS, where):
        loss = run.metrics.get("valid_loss_nats")
        losses[run.labels["tried"]].append(math.inf if loss is None else loss)
    return min((fmean(each) for each in losses.values()), default=math.inf)
