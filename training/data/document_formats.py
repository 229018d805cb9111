"""One reader per file format: a byte stream in, documents out."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import IO

from common.command_line import UsageError

MAX_LINE_BYTES = 4 << 20
"""Longer lines are divided (at white space where there is some): memory stays flat."""

MAX_DOCUMENT_BYTES = 8 << 20
"""Longer documents are divided at a line end, for the same reason."""

_BLOCK_BYTES = 1 << 20


def text_documents(stream: IO[bytes]) -> Iterator[bytes]:
    """Reads plain text, a blank line (or several) between documents."""
    return _grouped(stream, blank_lines_separate=True)


def whole_text(stream: IO[bytes]) -> Iterator[bytes]:
    """Reads plain text as a single document, whatever blank lines it has."""
    return _grouped(stream, blank_lines_separate=False)


def json_lines(stream: IO[bytes], name: str, text_field: str) -> Iterator[bytes]:
    """Reads one JSON object a line, the text in one field of each."""
    for number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode("utf-8", "surrogateescape"))
        except ValueError as error:
            raise UsageError(
                f"{name}:{number}: expected a JSON object. Received: "
                f"{line[:60]!r} ({error})."
            ) from None
        if not isinstance(row, dict) or not isinstance(row.get(text_field), str):
            fields = sorted(row) if isinstance(row, dict) else type(row).__name__
            raise UsageError(
                f"{name}:{number}: expected an object with a text field "
                f"{text_field!r} (--text-field). Received: {fields}."
            )
        yield from divided(to_bytes(row[text_field]))


def csv_rows(stream: IO[bytes], name: str, text_field: str) -> Iterator[bytes]:
    """Reads a CSV file with a header, the text in one column."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        text = io.TextIOWrapper(stream, "utf-8", errors="surrogateescape", newline="")
        rows = csv.reader(text)
        header = next(rows, None)
        if header is None:
            return
        column = _column(header, name, text_field)
        try:
            for row in rows:
                if not row:
                    continue
                if len(row) != len(header):
                    raise _wrong_width(name, rows.line_num, len(header), len(row))
                yield from divided(to_bytes(row[column]))
        except csv.Error as error:
            raise UsageError(f"{name}:{rows.line_num}: {error}.") from None
        text.detach()
    finally:
        csv.field_size_limit(limit)


def tsv_rows(stream: IO[bytes], name: str, text_field: str) -> Iterator[bytes]:
    """Reads a TSV file with a header; quotes are characters like any other."""
    columns = None
    for number, line in enumerate(stream, start=1):
        cells = line.rstrip(b"\r\n").split(b"\t")
        if columns is None:
            header = [cell.decode("utf-8", "replace") for cell in cells]
            columns = len(header)
            column = _column(header, name, text_field)
        elif cells != [b""]:
            if len(cells) != columns:
                raise _wrong_width(name, number, columns, len(cells))
            yield from divided(cells[column])


def parquet_rows(stream: IO[bytes], name: str, text_field: str) -> Iterator[bytes]:
    """Reads one text column of a Parquet file."""
    import pyarrow
    import pyarrow.parquet

    try:
        source = stream if stream.seekable() else io.BytesIO(stream.read())
        file = pyarrow.parquet.ParquetFile(source)
        _column(file.schema_arrow.names, name, text_field)
        for batch in file.iter_batches(batch_size=1024, columns=[text_field]):
            for value in batch.column(0).cast(pyarrow.binary()).to_pylist():
                if value is not None:
                    yield from divided(value)
    except pyarrow.ArrowInvalid as error:
        raise UsageError(f"{name}: not a sound Parquet file: {error}.") from None
    except pyarrow.ArrowNotImplementedError as error:
        raise UsageError(
            f"{name}: expected text in column {text_field!r}: {error}."
        ) from None


def to_bytes(text: str) -> bytes:
    """Encodes text; what was undecodable when read becomes its bytes again."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate, written as an escape in JSON
        return text.encode("utf-8", "surrogatepass")


def divided(document: bytes) -> Iterator[bytes]:
    """Yields a document, in parts if it is longer than `MAX_DOCUMENT_BYTES`."""
    if len(document) <= MAX_DOCUMENT_BYTES:
        yield document
    else:
        yield from whole_text(io.BytesIO(document))


def _grouped(stream: IO[bytes], blank_lines_separate: bool) -> Iterator[bytes]:
    lines: list[bytes] = []
    size = 0
    for line in _lines(stream):
        if blank_lines_separate and (not line or line.isspace()):
            if lines:
                yield b"\n".join(lines)
                lines, size = [], 0
            continue
        if lines and size + len(line) > MAX_DOCUMENT_BYTES:
            yield b"\n".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line) + 1
    if lines:
        yield b"\n".join(lines)


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yields lines without their ends, very long ones in parts."""
    rest = b""
    while block := stream.read(_BLOCK_BYTES):
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        yield from lines
        if len(rest) > MAX_LINE_BYTES:
            cut = max(rest.rfind(b" "), rest.rfind(b"\t"))
            if cut <= 0:
                cut = len(rest)
                # Not inside a character: continuation bytes are 10xxxxxx.
                while cut > len(rest) - 4 and rest[cut - 1] & 0xC0 == 0x80:
                    cut -= 1
                if rest[cut - 1] >= 0xC0:
                    cut -= 1
            yield rest[:cut]
            rest = rest[cut:]
    if rest:
        yield rest


def _column(header: Sequence[str], name: str, text_field: str) -> int:
    names = [column.lstrip("\ufeff") for column in header]
    if text_field not in names:
        raise UsageError(
            f"{name}:1: expected a column {text_field!r} (--text-field). Received: "
            f"{', '.join(names)}."
        )
    return names.index(text_field)


def _wrong_width(name: str, line: int, expected: int, found: int) -> UsageError:
    return UsageError(
        f"{name}:{line}: expected {expected} columns, as in the header. Received: "
        f"{found}."
    )
