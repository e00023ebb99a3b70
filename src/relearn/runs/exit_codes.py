"""How the program ends: one line on stderr and an exit status for every error that a user can cause.

======  ==================================================================================================
status  meaning
======  ==================================================================================================
0       done
2       wrong use or wrong parameters
3       wrong, missing, damaged or unreachable data
4       resource: disk, memory, device, lock, tracking store; the same command may succeed later
5       numerical: something cannot be computed (a non-finite loss is not an error but an outcome in the record)
130     interrupted by SIGINT
141     the reader of the output has closed the pipe
143     interrupted by SIGTERM, SIGUSR1 or SIGHUP
======  ==================================================================================================
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable

from relearn.runs import memory
from relearn.runs.atomic_files import RESOURCE_FAULTS

USE, DATA, RESOURCE, NUMERICAL, SIGINT, READER_GONE = 2, 3, 4, 5, 130, 141
# What readers raise for a damaged file, by name: importing them all would make every start slower.
DAMAGED = {"EOFError", "PickleError", "BadZipFile", "TarError", "YAMLError"}


def run_guarded(command: str, call: Callable[[], int]) -> int:
    """Run ``call()`` and turn its errors into a line and a status; with RELEARN_TRACEBACK set they are raised."""
    shown = warnings.formatwarning
    warnings.formatwarning = lambda message, *_, **__: f"relearn {command}: {_one_line(message)}\n"
    try:
        done = call()
        if sys.stdout:  # None if it was closed before the start
            sys.stdout.flush()  # here, where a closed pipe can still be distinguished from other errors
        return done
    except KeyboardInterrupt:
        print(f"relearn {command}: interrupted", file=sys.stderr)
        return SIGINT
    except BrokenPipeError:
        _leave_the_pipe()
        return READER_GONE
    except Exception as error:
        code = status(error)
        if code is None or os.environ.get("RELEARN_TRACEBACK"):
            raise
        print(f"relearn {command}: {one_line(error)}", file=sys.stderr)
        return code
    finally:
        warnings.formatwarning = shown


def status(error: Exception) -> int | None:
    """The exit status of an error; None for one that no user can have caused, which should show its traceback."""
    kind = type(error).__name__
    if memory.out_of_memory(error):
        return RESOURCE
    if kind == "SafetensorError":
        # safetensors reports the operating system's error only as text
        full = any(f"(os error {number})" in str(error) for number in RESOURCE_FAULTS)
        return RESOURCE if full else DATA
    if kind == "RecordError":
        return RESOURCE if isinstance(error.__cause__, OSError) else DATA
    if isinstance(error, (FileNotFoundError, PermissionError)) or kind == "DownloadError":
        return DATA
    if DAMAGED & {one.__name__ for one in type(error).__mro__} or type(error).__module__ == "_csv":
        return DATA
    if isinstance(error, ArithmeticError) or kind == "LinAlgError":
        return NUMERICAL
    if isinstance(error, (OSError, RuntimeError)):
        return RESOURCE
    return USE if isinstance(error, (ValueError, TypeError, KeyError, ImportError)) else None


def one_line(error: Exception) -> str:
    """An error in one line; for an out-of-memory error, with the peak memory reached."""
    text = _one_line(error)
    if type(error) is KeyError:  # its text is only the key
        text = f"the key {text} is missing"
    if isinstance(error, OSError) and error.filename and error.strerror:
        text = f"{error.filename}: {error.strerror}"
    if text.startswith("Could not determine home"):  # of pathlib
        return "found no home folder; set HOME, or RELEARN_CACHE to a folder for the cache"
    if memory.out_of_memory(error):
        return f"out of memory, the peak was {memory.peak()} ({text[:160]})"
    return text


def _one_line(error: object) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _leave_the_pipe() -> None:
    """The pipe is closed: discard buffered output, so that flushing it at exit does not raise again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
