"""Each task from small own files in the official form, and the real ones where RELEARN_MIRROR has them."""

import hashlib
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from relearn.data import glue
from relearn.data.examples import Examples
from relearn.data.glue import loading, mrpc
from relearn.data.glue.tasks import TASKS
from relearn.data.remote import Remote
from relearn.measures.glue_scores import KINDS

STS = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
PARSES = "\t".join(f"sentence{n}_{kind}" for kind in ("binary_parse", "parse") for n in (1, 2))
MNLI = f"index\tpromptID\tpairID\tgenre\t{PARSES}\tsentence1\tsentence2"
ROW = "\t".join(str(n) for n in range(7))
FILES = {
    "CoLA/train.tsv": 'gj04\t1\t\tHe "ran.\ncj99\t0\t*\tRan he the.\n',
    "CoLA/dev.tsv": "gj04\t0\t??\tHim ran.",
    "CoLA/test.tsv": "index\tsentence\n0\tShe ran.\n1\tShe sat.\n",
    "SST-2/train.tsv": "sentence\tlabel\ngood \t1\nbad \t0\n",
    "SST-2/dev.tsv": "sentence\tlabel\nfine \t1\n",
    "STS-B/train.tsv": f"{STS}\tscore\n0\tm\tf\t2012\t0001\tn\tn\tA plane.\tA kite.\t2.600\n",
    "STS-B/dev.tsv": f"{STS}\tscore\n0\tm\tf\t2012\t0002\tn\tn\tA cat.\tThe cat.\t5.000\n",
    "STS-B/test.tsv": f"{STS}\n0\tm\tf\t2012\t0003\tn\tn\tA dog.\tA cat.\n1\tm\tf\t2012\t0004\tn\tn\tA.\tB.\n",
    "QQP/train.tsv": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n9\t1\t2\tWhy?\tHow?\t1\n8\t1\t2\tcut\n7\t3\t4\tA?\t\t0\n",
    "QQP/dev.tsv": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n5\t1\t2\tWho?\tHow?\t0\n",
    "QQP/test.tsv": "id\tquestion1\tquestion2\n0\tWhat?\tThat?\n",
    "MNLI/train.tsv": f"{MNLI}\tlabel1\tgold_label\n{ROW}\tp\tIt is.\tIt was.\tneutral\tneutral\n",
    "MNLI/dev_matched.tsv": f"{MNLI}\tlabel1\tlabel2\tgold_label\n{ROW}\tp\tA.\tB.\tneutral\tentailment\tentailment\n",
    "MNLI/dev_mismatched.tsv": f"{MNLI}\tlabel1\tgold_label\n{ROW}\tp\tC.\tD.\tneutral\tcontradiction\n",
    "MNLI/test_matched.tsv": f"{MNLI}\n{ROW}\tp\tE.\tF.\n",
    "MNLI/test_mismatched.tsv": f"{MNLI}\n{ROW}\tp\tG.\tH.\n",
    "QNLI/train.tsv": "index\tquestion\tsentence\tlabel\n0\tWho?\tHe.\tentailment\n1\tWho?\tIt.\tnot_entailment\n",
    "QNLI/dev.tsv": "index\tquestion\tsentence\tlabel\n0\tWhat?\tSo.\tnot_entailment\n1\tWhat?\tIt.\tentailment\n",
    "QNLI/test.tsv": "index\tquestion\tsentence\n0\tWho?\tShe.\n",
    "RTE/train.tsv": "index\tsentence1\tsentence2\tlabel\n0\tAll.\tSome.\tentailment\n",
    "RTE/dev.tsv": "index\tsentence1\tsentence2\tlabel\n0\tSome.\tAll.\tnot_entailment\n",
    "RTE/test.tsv": "index\tsentence1\tsentence2\n0\tOne.\tTwo.\n",
    "WNLI/train.tsv": "index\tsentence1\tsentence2\tlabel\n0\tA saw B. It ran.\tA ran.\t0\n1\tA saw B. It ran.\tB ran.\t1\n",
    "WNLI/dev.tsv": "index\tsentence1\tsentence2\tlabel\n0\tC saw D. It sat.\tC sat.\t1\n",
    "AX/AX.tsv": "index\tsentence1\tsentence2\n0\tNot all.\tSome.\n",
}
MRPC_HEAD = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        put(tmp_path / name, text)
    rows = "".join(f"{n % 2}\t{10 + n}\t{20 + n}\tFirst {n}.\tSecond {n}.\r\n" for n in range(6))
    put(tmp_path / "MRPC/msr_paraphrase_train.txt", MRPC_HEAD + rows)
    put(tmp_path / "MRPC/msr_paraphrase_test.txt", MRPC_HEAD + '1\t1\t2\tA "quote.\tA quote.\r\n')
    return tmp_path


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_its_kind_its_classes_and_its_parts(folder: Path, task: str) -> None:
    found = glue.load(task, folder, official=False)
    assert found.kind == ("regression" if task == "stsb" else "classification")
    assert found.classes == max(1, len(found.words)) and found.metric == found.metrics[0]
    assert set(found.metrics) <= set(KINDS[found.kind])
    assert json.loads(json.dumps(found.source)) == found.source and str(folder) not in json.dumps(
        found.source
    )
    for part in (found.train, found.dev):
        assert (part.labels is not None) == (task != "ax") or not len(part)
    # One folder further down is the same.
    (folder.parent / "above").mkdir(exist_ok=True)
    (folder.parent / "above" / "glue").symlink_to(folder)
    again = glue.load(task, folder.parent / "above", official=False)
    assert again.train.rows == found.train.rows and again.source == found.source
    (folder.parent / "above" / "glue").unlink()


def test_what_each_file_says(folder: Path) -> None:
    cola = glue.load("cola", folder, official=False)
    assert cola.train.rows == [[('He "ran.', None)], [("Ran he the.", None)]]
    assert labels(cola.train) == [1, 0] and labels(cola.dev) == [0] and cola.metric == "mcc"
    assert cola.test.ids == ["0", "1"] and cola.test.labels is None and cola.source["absent"] == []
    sst2 = glue.load("sst2", folder, official=False)
    assert sst2.train.rows[0] == [("good", None)] and not len(sst2.test) and sst2.source["absent"] == ["test"]
    stsb = glue.load("stsb", folder, official=False)
    assert labels(stsb.train) == pytest.approx([2.6]) and stsb.train.rows == [[("A plane.", "A kite.")]]
    assert stsb.metrics == ("pearson", "spearman") and stsb.test.labels is None and stsb.words == ()
    qqp = glue.load("qqp", folder, official=False)
    assert (
        qqp.train.ids == ["0", "2"] and labels(qqp.train) == [1, 0] and qqp.source["left_out"] == {"train": 1}
    )
    mnli = glue.load("mnli", folder, official=False)
    assert (labels(mnli.train), labels(mnli.dev), mnli.classes) == ([1], [0], 3)
    assert mnli.dev_mismatched is not None and labels(mnli.dev_mismatched) == [2]
    assert mnli.test_mismatched is not None and mnli.test_mismatched.rows == [[("G.", "H.")]]
    assert mnli.test.rows == [[("E.", "F.")]] and mnli.test.labels is None
    rte = glue.load("rte", folder, official=False)
    assert (
        labels(rte.train) == [1] and labels(rte.dev) == [0] and rte.words == ("not_entailment", "entailment")
    )
    ax = glue.load("ax", folder, official=False)
    assert (len(ax.train), len(ax.dev), ax.test.rows) == (0, 0, [[("Not all.", "Some.")]])
    assert cola.dev_mismatched is None and ax.words == mnli.words


def labels(part: Examples) -> list[float]:
    assert part.labels is not None
    return part.labels.tolist()


def test_qnli_and_wnli_can_be_read_as_rankings(folder: Path) -> None:
    qnli = glue.load("qnli", folder, form="ranking", official=False)
    assert (qnli.kind, qnli.classes, qnli.metrics) == ("ranking", 1, ("accuracy",))
    assert qnli.train.rows == [[("Who?", "He."), ("Who?", "It.")]] and labels(qnli.train) == [0]
    assert labels(qnli.dev) == [1] and qnli.test.ids == ["0+train:0+train:1"]
    wnli = glue.load("wnli", folder, form="ranking", official=False)
    assert labels(wnli.train) == [1] and len(wnli.dev) == 0
    assert wnli.source["ranking"]["dev"] == {"samples": 0, "borrowed": 0, "left_out": 1}


def test_public_scores_of_stsb(folder: Path) -> None:
    place = folder / "STS-B/sts-test.original.csv"
    put(place, "m\tf\t2012\t0003\t1.5\tA dog.\tA cat.\tsource\tsource\nm\tf\t2012\t0004\t0.25\tA.\tB.\n")
    found = glue.load("stsb", folder, official=False)
    assert labels(found.test) == [1.5, 0.25] and "public" in found.source["test_scores"]
    put(place, "m\tf\t2012\t0004\t0.25\tA.\tB.\nm\tf\t2012\t0003\t1.5\tA dog.\tA cat.\n")
    with pytest.raises(ValueError, match=r"rows are not those of test.tsv"):
        glue.load("stsb", folder, official=False)
    put(place, "m\tf\t2012\t0003\t1.5\nm\tf\t2012\t0004\tx\n")
    with pytest.raises(ValueError, match=r"a row without a score"):
        glue.load("stsb", folder, official=False)


def test_answered_diagnostics_are_read_with_their_answers(folder: Path) -> None:
    head = "Lexical Semantics\tPredicate-Argument Structure\tLogic\tKnowledge\tDomain\tPremise\tHypothesis\tLabel\n"
    put(folder / "AX/diagnostic-full.tsv", head + "\t\tNegation\t\tArtificial\tNot all.\tSome.\tneutral\n")
    found = glue.load("ax", folder, official=False)
    assert (
        labels(found.test) == [1] and found.test.rows == [[("Not all.", "Some.")]] and found.test.ids == ["0"]
    )


def test_mrpc_with_and_without_the_list(folder: Path) -> None:
    own = glue.load("mrpc", folder, official=False)
    assert own.source["dev"].startswith("own: ") and len(own.dev) == 3 and len(own.train) == 3
    # The rule, again: smallest sha256 of the two numbers.
    order = sorted(range(6), key=lambda n: hashlib.sha256(f"{10 + n} {20 + n}".encode()).hexdigest())
    assert own.dev.ids == [str(n) for n in sorted(order[:3])]
    assert set(own.dev.ids) | set(own.train.ids) == set("012345") and own.train.rows[0][0][0].startswith(
        "First"
    )
    assert own.test.rows == [[('A "quote.', "A quote.")]] and labels(own.test) == [1]
    put(folder / "MRPC/dev_ids.tsv", "14\t24\r\n11\t21\r\n")
    listed = glue.load("mrpc", folder, official=False)
    assert listed.dev.ids == ["1", "4"] and listed.train.ids == ["0", "2", "3", "5"]
    assert listed.source["dev"] == "the benchmark's" and labels(listed.dev) == [1, 0]
    put(folder / "MRPC/dev_ids.tsv", "14\t21\n")
    with pytest.raises(ValueError, match=r"dev_ids.tsv: pair 14 21 \(allowed: pairs of the training file\)"):
        glue.load("mrpc", folder, official=False)
    (folder / "MRPC/msr_paraphrase_train.txt").unlink()
    with pytest.raises(ValueError, match=r"MRPC/msr_paraphrase_train.txt: missing"):
        glue.load("mrpc", folder, official=False)


def test_the_official_zip(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The zip gives what its folder gives; another zip under its name is refused, and so is a broken one."""
    expected = glue.load("rte", folder, official=False)
    place = folder / "packed" / "RTE.zip"
    place.parent.mkdir()
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("train", "dev", "test"):
            archive.write(folder / f"RTE/{name}.tsv", f"RTE/{name}.tsv")
    with pytest.raises(ValueError, match=r"RTE.zip: \d+ bytes, expected 697150; not the official archive"):
        glue.load("rte", place.parent, official=False)

    def known() -> None:
        content = place.read_bytes()
        remote = Remote("RTE.zip", (), len(content), hashlib.sha256(content).hexdigest())
        told = loading.TASKS["rte"]
        values = {name: getattr(told, name) for name in told.__dataclass_fields__}
        monkeypatch.setitem(loading.TASKS, "rte", type(told)(**{**values, "remotes": (remote,)}))

    known()
    found = glue.load("rte", place.parent, official=False)
    assert found.train.rows == expected.train.rows and found.source["from"] == "RTE.zip"
    assert found.source["sha256"] == expected.source["sha256"]
    place.write_bytes(place.read_bytes()[:-30])
    known()
    with pytest.raises(ValueError, match=r"not a complete zip archive"):
        glue.load("rte", place.parent, official=False)


@pytest.mark.parametrize("task", TASKS)
def test_offline_the_archive_is_named(offline: Path, task: str) -> None:
    remote = TASKS[task].remotes[0]
    with pytest.raises(OSError, match=f"{remote.name}.*dl.fbaipublicfiles.com.*{remote.sha256}"):
        glue.load(task)


@pytest.mark.parametrize(
    ("task", "form", "said"),
    [
        ("snli", "pairs", r"task: snli \(allowed: cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, wnli, ax\)"),
        ("rte", "ranking", r"form: ranking of rte \(allowed: pairs; ranking of qnli, wnli\)"),
        ("qnli", "triples", r"form: triples of qnli"),
        ("rte", "pairs", r"rte train: 1 samples \(allowed: 2490\)"),
        ("qqp", "pairs", r"qqp train: 2 samples \(allowed: 363846 or 363849\)"),
    ],
)
def test_a_wrong_task_or_form_is_refused_in_one_line(folder: Path, task: str, form: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as fault:
        glue.load(task, folder, form=form)
    assert "\n" not in str(fault.value)


def test_missing_files_are_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"has no QNLI/train.tsv or QNLIv2.zip \(allowed: one of them\)"):
        glue.load("qnli", tmp_path / "empty")
    (folder / "RTE/dev.tsv").unlink()
    with pytest.raises(ValueError, match=r"RTE/dev.tsv: missing"):
        glue.load("rte", folder, official=False)
    put(folder / "RTE/dev.tsv", "index\tsentence1\tsentence2\n0\tA.\tB.\n")
    with pytest.raises(ValueError, match=r"dev.tsv: no column 'label'"):
        glue.load("rte", folder, official=False)


@pytest.mark.parametrize(
    ("task", "ones", "first"),
    [
        ("cola", 6023, "Our friends won't buy this analysis"),
        ("sst2", 37569, "when are bears bears and"),
        ("rte", 1249, "No Weapons of Mass Destruction Found in Iraq Yet."),
        ("wnli", 312, "I stuck a pin through a carrot."),
    ],
)
def test_real_tasks_have_their_known_labels_and_first_sentences(
    mirror: Callable[..., Path], task: str, ones: int, first: str
) -> None:
    found = glue.load(task, mirror("glue"))
    assert sum(labels(found.train)) == ones and found.train.rows[0][0][0].startswith(first)
    assert not set(found.source["absent"]) - {"test"}


def test_real_similarity_and_paraphrases(mirror: Callable[..., Path]) -> None:
    stsb = glue.load("stsb", mirror("glue"))
    assert labels(stsb.train)[:3] == pytest.approx([5.0, 3.8, 3.8])
    assert stsb.test.labels is not None and labels(stsb.test)[:3] == pytest.approx([2.5, 3.6, 5.0])
    assert float(stsb.test.labels.min()) == 0 and float(stsb.test.labels.max()) == 5
    found = glue.load("mrpc", mirror("glue"))
    assert sum(labels(found.train)) + sum(labels(found.dev)) == 2753 and sum(labels(found.test)) == 1147
    assert len(found.dev) == mrpc.DEV and not set(found.dev.ids) & set(found.train.ids)


def test_real_sentences_with_their_candidates(mirror: Callable[..., Path]) -> None:
    found = glue.load("wnli", mirror("glue"), form="ranking")
    told = found.source["ranking"]
    assert told["train"] == {"samples": 253, "borrowed": 0, "left_out": 114}
    assert told["dev"] == {"samples": 59, "borrowed": 53, "left_out": 6}
    pairs = glue.load("wnli", mirror("glue"))
    known = dict(zip(pairs.dev.ids, labels(pairs.dev)))
    for name, label, rows in zip(found.dev.ids, labels(found.dev), found.dev.rows):
        own = [one for one in name.split("+") if ":" not in one]
        assert [known[one] for one in own] == [float(number == label) for number in range(len(own))]
        assert torch.tensor(label) < len(rows) and len({text for text, _ in rows}) == 1


def test_the_page_runs(mirror: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "glue.md").read_text(encoding="utf-8")
    block, *_ = re.findall(r"```python\n(.*?)```", page, re.S)
    (tmp_path / "glue").symlink_to((mirror("glue") / "glue").resolve())
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "glue.md", "exec"), {})
    with zipfile.ZipFile(tmp_path / "submission.zip") as archive:
        assert archive.namelist() == ["RTE.tsv"]
