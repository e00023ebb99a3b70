"""Every error that a user can cause: its status and its one line."""

import csv
import errno
import pickle
import tarfile
import warnings
import zipfile

import numpy as np
import pytest
import torch
import yaml
from safetensors import SafetensorError

from relearn.data.remote import DownloadError
from relearn.runs.atomic_files import Busy
from relearn.runs.exit_codes import one_line, run_guarded, status
from relearn.runs.memory import out_of_memory, peak
from relearn.runs.record import RecordError


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    error.__cause__ = cause
    return error


CASES = [
    (ValueError("k: found 0"), 2),
    (KeyError("lr"), 2),
    (ModuleNotFoundError("No module named 'mlflow'"), 2),
    (RecordError("record.json: torn"), 3),
    (raised(RecordError("a: needs to write there"), OSError(errno.EROFS, "Read-only")), 4),
    (EOFError("Ran out of input"), 3),
    (pickle.UnpicklingError("invalid load key"), 3),
    (zipfile.BadZipFile("File is not a zip file"), 3),
    (tarfile.ReadError("unexpected end of data"), 3),
    (csv.Error("field larger than field limit (131072)"), 3),
    (yaml.YAMLError("while parsing"), 3),
    (FileNotFoundError(errno.ENOENT, "No such file", "x"), 3),
    (DownloadError("cifar: offline"), 3),
    (SafetensorError("Error while deserializing: header too large"), 3),
    (SafetensorError("I/O error: No space left on device (os error 28)"), 4),
    (OSError(errno.ENOSPC, "No space left on device (0 MiB free)", "a/b"), 4),
    (OSError(errno.ENOMEM, "Cannot allocate memory"), 4),
    (MemoryError(), 4),
    (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), 4),
    (RuntimeError("CUDA error: device-side assert triggered"), 4),
    (Busy("a.lock: held by process 7, not free after 30 s"), 4),
    (np.linalg.LinAlgError("Singular matrix"), 5),
    (OverflowError("too large"), 5),
]


def test_a_key_error_says_that_it_is_one() -> None:
    assert one_line(KeyError("lr")) == "the key 'lr' is missing"


@pytest.mark.parametrize(("error", "code"), CASES, ids=lambda one: type(one).__name__ if one else None)
def test_an_error_is_one_line_and_a_status(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RELEARN_TRACEBACK", raising=False)

    def fail() -> int:
        raise error

    assert run_guarded("craft", fail) == code
    said = capsys.readouterr().err
    assert (
        said.startswith("relearn craft: ") and said.count("\n") == 1 and len(said) > len("relearn craft: \n")
    )


def test_a_fault_of_the_program_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    assert status(AssertionError()) is None and status(AttributeError("x")) is None
    with pytest.raises(AssertionError):
        run_guarded("craft", lambda: (_ for _ in ()).throw(AssertionError()))
    monkeypatch.setenv("RELEARN_TRACEBACK", "1")
    with pytest.raises(ValueError, match="k"):
        run_guarded("craft", lambda: (_ for _ in ()).throw(ValueError("k")))


def test_the_line_names_the_file_first_and_lines_become_one() -> None:
    assert one_line(OSError(errno.ENOSPC, "No space left on device (3 MiB free)", "a/b")) == (
        "a/b: No space left on device (3 MiB free)"
    )
    assert one_line(ValueError("one\n  two")) == "one two"


def test_warnings_are_one_line_without_a_place(capsys: pytest.CaptureFixture[str]) -> None:
    before = warnings.formatwarning

    def warn() -> int:
        print(warnings.formatwarning("fit: unusable", RuntimeWarning, __file__, 1), end="")
        return 0

    assert run_guarded("craft", warn) == 0
    assert capsys.readouterr().out == "relearn craft: fit: unusable\n" and warnings.formatwarning is before


def test_torch_s_own_words_are_known() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50)
    assert out_of_memory(caught.value)
    assert not out_of_memory(RuntimeError("shape mismatch")) and not out_of_memory(
        ValueError("out of memory")
    )
    assert peak().endswith("MiB of host memory")
