"""Write columns of plain values to a Parquet file, and read them back."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from relearn.runs.record_file import RecordError

JSON = b"json"  # in the file's metadata: the names of the columns that hold JSON text


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
    names: list[str] = json.loads((table.schema.metadata or {}).get(JSON, b"[]"))
    marked = (field.name for field in table.schema if JSON in (field.metadata or {}))  # files of version 0.10
    return {*names, *marked}


def write(path: Path, columns: Mapping[str, Sequence[Any]], json_columns: Collection[str] = ()) -> None:
    """Write the columns; no file is written if they have no rows.

    Args:
        json_columns: names of the columns that hold JSON text; recorded in the file's metadata.
    """
    import pyarrow

    if not any(map(len, columns.values())):
        return
    arrays = [pyarrow.array(values) for values in columns.values()]
    marked = [name for name in columns if name in json_columns]
    numbers = [
        name
        for name, array in zip(columns, arrays)
        if array.type == pyarrow.int64() or (array.type == pyarrow.float64() and varied(array))
    ]
    table = pyarrow.table(arrays, list(columns))
    # brotli at this level finds most repeated values itself, but in some tables a dictionary finds more
    dictionaries = [name for name in columns if name not in numbers]
    tried = [_bytes(table, marked, numbers, repeated) for repeated in (False, dictionaries or False)]
    path.write_bytes(min(tried, key=len))


def _bytes(table: Any, marked: Sequence[str], numbers: Sequence[str], dictionaries: Any) -> bytes:
    from pyarrow import BufferOutputStream, parquet

    sink = BufferOutputStream()
    with parquet.ParquetWriter(
        sink,
        table.schema,
        compression="brotli",  # 3% smaller than zstd at its highest level
        compression_level=11,
        write_statistics=False,
        store_schema=False,  # the types are Parquet's own
        data_page_size=2**26,
        use_dictionary=dictionaries,
        use_byte_stream_split=numbers,  # halves the size of small integers and of single-precision values
    ) as writer:
        writer.write_table(table)
        if marked:
            writer.add_key_value_metadata({JSON: json.dumps(marked)})
    return bytes(sink.getvalue())


def varied(array: Any) -> bool:
    """Whether so many values differ that they are smaller split by place than as repeated doubles."""
    known = array.drop_null()
    return len(known.unique()) > len(known) / 4
