"""relearn evaluate-text: attack a trained sentence classifier with a recipe of TextAttack, on texts of a task.

    relearn evaluate-text results/mini/runs/freelb/finetune/.../model.safetensors --task acceptability --recipe deepwordbug

MODEL is a file that `relearn freelb finetune` wrote. The first samples of the task's dev part, evenly spaced, that it classifies
correctly are attacked; a success counts if the network itself gives the changed text another class. Prints the success rate with its
95% interval, the accuracies, and the number of queries; writes text_attack.json and text_attack.csv (every text) to --out.

TextAttack is optional (docs/freelb.md says how to install it). `deepwordbug` and `pruthi` change characters and need no download with
`--stopwords sklearn`; other recipes are named by their class in textattack.attack_recipes and may need word vectors or models.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from relearn.cli import number, output_folder, seed_number

NEEDS_TORCH = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, help="model.safetensors of a fine-tuned sentence classifier")
    parser.add_argument(
        "--task", required=True, help="acceptability, sst2, rte, ...; of relearn.data.text_tasks"
    )
    parser.add_argument(
        "--recipe", default="deepwordbug", help="deepwordbug, pruthi, or a class; default: deepwordbug"
    )
    parser.add_argument(
        "--samples", type=int, default=100, help="texts of the dev part, evenly spaced (0: all)"
    )
    parser.add_argument("--max-length", type=int, help="tokens of a text; default: what the network reads")
    parser.add_argument("--query-budget", type=int, help="queries for a text; default: no limit")
    parser.add_argument("--stopwords", choices=("nltk", "sklearn"), default="nltk", help="default: nltk")
    parser.add_argument(
        "--out", type=Path, default=Path("results/own-text"), help="default: results/own-text"
    )
    parser.add_argument("--device", default="auto", help="auto | cpu | cuda | cuda:N")
    parser.add_argument("--threads", type=number, default=1)
    parser.add_argument("--seed", type=seed_number, default=0)


def main(args: argparse.Namespace) -> int:
    """Attack, print and write; see the module.

    Raises:
        ValueError: an unusable model, task or recipe, or no text that is classified correctly; one line.
        ModuleNotFoundError: without TextAttack.
    """
    output_folder.check("--out", args.out)
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    import torch

    from relearn.runs.console import Progress
    from relearn.runs.devices import acquire
    from relearn.studies.freelb import text_attacks
    from relearn.studies.freelb.steps import max_loss_increase, sentence_files

    torch.set_num_threads(args.threads)
    if not args.model.is_file():
        raise FileNotFoundError(
            f"{args.model}: no such file; allowed: a model.safetensors of `relearn freelb finetune`"
        )
    if args.samples < 0:
        raise ValueError(f"--samples: found {args.samples}, allowed: 0 or more")
    if args.query_budget is not None and args.query_budget < 1:
        raise ValueError(f"--query-budget: found {args.query_budget}, allowed: 1 or more")
    library = text_attacks.load_library(args.stopwords, args.out / "stopwords")
    examples, source = max_loss_increase.read(args.task, args.samples)
    with acquire(args.device) as device, Progress(f"{args.recipe} on {args.task}") as progress:
        net, tokenizer = sentence_files.load(args.model, device)
        model = text_attacks.Probabilities(net, tokenizer, args.max_length)
        attack = text_attacks.wrapped(library, args.recipe, model)
        if args.query_budget is not None:
            attack.goal_function.query_budget = args.query_budget
        rows = text_attacks.attack_all(model, examples, attack, seed=args.seed, tick=progress)
    found = text_attacks.summary(rows)
    write_record(args, rows, found, source, model.longest, device)
    print("\n".join(lines(args, found)))
    return 0


def write_record(
    args: argparse.Namespace, rows: Any, found: dict[str, float], source: Any, longest: int, device: str
) -> None:
    from importlib import metadata

    import torch

    from relearn import __version__
    from relearn.runs.atomic_files import digest, write
    from relearn.steps.csv_rows import write_rows
    from relearn.studies.freelb import text_attacks

    try:
        version = metadata.version("textattack")
    except metadata.PackageNotFoundError:
        version = None
    body = {
        "model": {"file": args.model.name, "sha256": digest(args.model)},
        "task": args.task,
        "source": source,
        "recipe": text_attacks.RECIPES.get(args.recipe, args.recipe),
        "stopwords": args.stopwords,
        "samples": args.samples,
        "max_length": longest,
        "query_budget": args.query_budget,
        "seed": args.seed,
        "device": device,
        "versions": {"relearn": __version__, "torch": torch.__version__, "textattack": version},
        "metrics": found,
    }
    args.out.mkdir(parents=True, exist_ok=True)
    write_rows(args.out / "text_attack.csv", text_attacks.COLUMNS, rows)
    write(args.out / "text_attack.json", (json.dumps(body, indent=1) + "\n").encode())


def lines(args: argparse.Namespace, found: dict[str, float]) -> list[str]:
    percent = {name: f"{100 * value:.1f}%" for name, value in found.items() if name.endswith("_frac")}
    success = f"{percent['success_frac']} [{percent['success_low_frac']}, {percent['success_high_frac']}]"
    shown = [
        f"{args.recipe} on {args.task}: {found['samples_count']:g} texts, {found['attacked_count']:g} attacked",
        f"success          {success}",
        f"accuracy         {percent['clean_accuracy_frac']} clean, {percent['attacked_accuracy_frac']} attacked",
        f"queries per text {found['queries_mean']:.1f} on average, median {found['queries_median']:g}",
    ]
    if found["unconfirmed_count"]:
        shown.append(
            f"successes that the network did not confirm, counted as failures: {found['unconfirmed_count']:g}"
        )
    if found["answers_count"] < 2:
        shown.append(
            "the network answers every text with the same class, so the success rate says NOTHING about robustness"
        )
    if args.stopwords != "nltk":
        shown.append("stop words: scikit-learn's, not NLTK's, so the recipe is not quite the published one")
    return [
        *shown,
        f"every text, and the record: {args.out / 'text_attack.csv'}, {args.out / 'text_attack.json'}",
    ]
