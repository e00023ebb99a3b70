"""Write columns of plain values to a Parquet file, and read them back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from relearn.runs.record_file import RecordError

JSON = b"json"  # in the metadata of a column that holds JSON text


def read(path: Path) -> Any:
    """The table.

    Raises:
        RecordError: the file is missing or not a Parquet file; one line.
    """
    from pyarrow import ArrowException, parquet

    try:
        return parquet.read_table(path)
    except (ArrowException, OSError) as error:
        reason = (
            error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
        )
        raise RecordError(f"{path}: cannot be read: {reason}") from None


def json_columns(table: Any) -> set[str]:
    """The columns of a table that hold JSON."""
    return {field.name for field in table.schema if JSON in (field.metadata or {})}


def write(path: Path, columns: Mapping[str, Sequence[Any]], json_columns: Collection[str] = ()) -> None:
    """Write the columns; no file is written if they have no rows.

    Args:
        json_columns: names of the columns that hold JSON text; recorded in the file's metadata.
    """
    import pyarrow
    from pyarrow import parquet

    if not any(map(len, columns.values())):
        return
    arrays = [pyarrow.array(values) for values in columns.values()]
    marks = [{JSON: b""} if name in json_columns else None for name in columns]
    fields = [pyarrow.field(name, array.type, metadata=m) for name, array, m in zip(columns, arrays, marks)]
    numbers = [
        name for name, array in zip(columns, arrays) if array.type == pyarrow.float64() and varied(array)
    ]
    parquet.write_table(
        pyarrow.table(arrays, schema=pyarrow.schema(fields)),
        path,
        compression="zstd",
        compression_level=22,
        write_statistics=False,
        data_page_size=2**26,
        use_dictionary=[name for name in columns if name not in numbers],
        use_byte_stream_split=numbers,  # halves the size of single-precision values stored as double
    )


def varied(array: Any) -> bool:
    """Whether so many values differ that a dictionary of them would be larger than the bytes themselves, split by place."""
    known = array.drop_null()
    return len(known.unique()) > len(known) / 4
