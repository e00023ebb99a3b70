"""The code in the documents runs: every Python block of every page, each in a separate process, as a reader would paste it."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from relearn.cli import VERBS, targets
from relearn.forecast import counts, machine, summary, text
from relearn.studies import STUDIES, parameters
from relearn.studies.study import all_studies

ROOT = Path(__file__).parents[1]
# A block, and what stands below it as its output.
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.S)
PAGES = sorted(
    page for page in (ROOT / "docs").glob("*.md") if BLOCK.search(page.read_text(encoding="utf-8"))
)

# A process that has imported torch alone, with the compiler that optimisers load, which takes seconds, and forks for each block.
# What a block imports or declares is gone with its process, so that no block can rest on another one.
RUNNER = """
import json, os, sys, traceback
import torch, torch._dynamo

for name, block in json.load(sys.stdin):
    print(f"block {name}:", flush=True)
    child = os.fork()
    if not child:
        try:
            exec(compile(block, name, "exec"), {"__name__": "__main__"})
            sys.stdout.flush()
            os._exit(0)
        except BaseException:
            traceback.print_exc(file=sys.stdout)
            sys.stdout.flush()
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        print("block failed:", name)
print("DONE")
"""


def run(blocks: list[tuple[str, str]], folder: Path) -> str:
    """The output of the blocks, each in a separate process; failed blocks are named."""
    done = subprocess.run(
        [sys.executable, "-c", RUNNER], input=json.dumps(blocks), capture_output=True, text=True, cwd=folder
    )
    assert done.stdout.endswith("DONE\n"), done.stdout + done.stderr
    return done.stdout


def small_glue(folder: Path) -> None:
    """RTE in the layout and the numbers of its official files, which docs/glue.md reads."""
    (folder / "glue" / "RTE").mkdir(parents=True)
    for part, count in (("train", 2490), ("dev", 277), ("test", 3000)):
        labels = "" if part == "test" else "\tlabel"
        rows = [f"index\tsentence1\tsentence2{labels}"]
        for row in range(count):
            label = ("entailment", "not_entailment")[row % 2]
            rows.append(f"{row}\tIt is {row}.\tIs it {row}?" + (f"\t{label}" if labels else ""))
        (folder / "glue" / "RTE" / f"{part}.tsv").write_text("\n".join(rows) + "\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_block_runs_and_prints_what_stands_below_it(page: Path, tmp_path: Path) -> None:
    if page.name == "glue.md":
        small_glue(tmp_path)
    text = page.read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert sum(bool(shown) for _, shown in blocks) == text.count("```\n\n```text\n")
    found = run([(str(n), block) for n, (block, _) in enumerate(blocks)], tmp_path)
    assert "block failed:" not in found, found
    printed = re.split(r"^block \d+:\n", found.removesuffix("DONE\n"), flags=re.MULTILINE)[1:]
    for output, (_, shown) in zip(printed, blocks, strict=True):
        assert not shown or output == shown


def test_a_block_cannot_rest_on_another_one(tmp_path: Path) -> None:
    """What is declared in one block is not there in the next, and a failure is named."""
    first = "import torch\ntorch.left_behind = 1\n"
    found = run(
        [("first", first), ("second", "import torch\ntorch.left_behind\n"), ("third", "1\n")], tmp_path
    )
    assert re.findall(r"^block failed: (\w+)", found, re.MULTILINE) == ["second"]


def test_every_import_of_the_readme_works(tmp_path: Path) -> None:
    """Its block uses names that the reader defines; only its imports can be run alone, each in a separate process."""
    block = "\n".join(block for block, _ in BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    imports = [
        ast.unparse(node) for node in ast.parse(block).body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert len(imports) > 4
    # `import timm` stands below the import that registers the names
    imports = [line for line in imports if line != "import timm"]
    found = run([(line, line) for line in imports], tmp_path)
    assert "block failed:" not in found, found


def test_readme_fits_a_page() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize(
    "page", ["README.md", "docs/terminal.md", "docs/forecast.md", "docs/change-a-parameter.md"]
)
def test_every_target_and_verb_of_a_command_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    commands = [
        words.split()
        for words in re.findall(r"(?:^|`|\$ )((?:relearn|snakemake) [^`#\n]*)", text, re.MULTILINE)
    ]
    assert len(commands) > 1
    for program, *words in commands:
        if program == "relearn" and words and words[0].islower():
            assert words[0] in {*VERBS, *STUDIES}, words
        for word in words:
            if re.fullmatch(
                r"claim:[a-z]\w*|(?:table|fig|chapter)\d[\d.]*|(?:kim|zhu|qi|ye|touvron)\d{4}\S*", word
            ):
                targets.find(word)  # ValueError: no such target


def runs_of(scale: str) -> dict[str, int]:
    """The number of planned runs of each study."""
    values = parameters.load(ROOT / "params.yaml", scale=scale)
    plans = {study.name: study.part("plan").plan(values, scale) for study in all_studies()}
    return {name: sum(len(family.runs) for family in plan.values()) for name, plan in plans.items()}


def test_the_numbers_of_runs_in_the_documents_are_those_of_the_plan() -> None:
    page = (ROOT / "docs/scale.md").read_text(encoding="utf-8").partition("## The paper scale")[2]
    rows = re.findall(r"^\| (\w+) \| ([\d,]+) \|.*\|.*\|$", page, re.MULTILINE)
    runs = runs_of("paper")
    assert {name: int(count.replace(",", "")) for name, count in rows} == runs | {"all": sum(runs.values())}
    assert f"# {sum(runs.values()):,} queue jobs" in page
    said = f"the {sum(runs_of('mini').values())} runs of mini become"
    assert said in (ROOT / "docs/slurm.md").read_text(encoding="utf-8")


def test_the_gpu_days_in_the_documents_are_those_of_the_forecast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs/scale.md").read_text(encoding="utf-8").partition("## The paper scale")[2]
    monkeypatch.setenv("RELEARN_CACHE", str(tmp_path))  # no counts of one's own
    monkeypatch.chdir(tmp_path)  # no run is done
    host = machine.processor("AMD EPYC")
    monkeypatch.setattr(machine, "this_machine", lambda: host)  # whatever runs the test
    assert f"for the shipped rates of an {host.name}:" in page and host.name in machine.device("h100").source
    counts.table.cache_clear()
    try:
        whole = summary.forecast(
            parameters.load(ROOT / "params.yaml", scale="paper"), on=machine.device("h100")
        )
        *_, uncounted, unknown = text.page(whole, "paper", machine.device("h100")).splitlines()
    finally:
        counts.table.cache_clear()
    rows = re.findall(r"^\| (\w+) \| [\d,]+ \| (.*?) \| (.*?) ?\|$", page, re.MULTILINE)
    parts = {part.name: part for part in (*whole.parts, whole)}
    assert [name for name, *_ in rows] == list(parts)
    for name, days, span in rows:
        middle, *ends = parts[name].seconds
        if not span:  # nothing but runs of unknown cost, or less than a day
            assert middle < 86400 and (days == "less than 1" or parts[name].unknown), name
        else:
            found = [seconds / 86400 for seconds in (middle, *ends)]
            assert [f"{one:.{1 if one < 10 else 0}f}" for one in found] == [days, *span.split(" - ")], name
    days, chain = (round(seconds / 86400) for seconds in (whole.seconds[0], whole.schedule.chain_s))
    assert f"On 64 such GPUs that is {days / 64:.0f} days if they are never idle ({days} / 64)." in page
    assert f"The longest chain alone takes {chain} days" in page
    jobs = [line.split()[0] for line in (uncounted, unknown)]
    assert f"the networks of {jobs[0]} jobs are not counted, and that {jobs[1]} jobs of unknown cost" in page
    assert f"it gives {whole.memory_mb / 1e6:.1f} TB of main memory" in page


def test_files_that_the_readme_links_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert link.startswith("http") or (ROOT / link).exists(), link
