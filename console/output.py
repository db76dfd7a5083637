"""What is printed: data on stdout, talk on stderr, hostile text made harmless.

Everything but `print_json`, which writes ASCII alone, passes through `inert`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum, StrEnum
from itertools import islice
from pathlib import PurePath
from threading import Event, Thread
from typing import Any
from uuid import UUID

from breakglass.services.clock import now_ms
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.words.figures import shown
from breakglass.services.words.inert import inert
from breakglass.services.words.moments import time_text

LOOK_SECONDS = 0.5
ENTRIES_AT_ONCE = 100
"""How many entries of a streamed array are in memory as JSON at a time."""


class LogFormat(StrEnum):
    """The values of ``--log-format``."""

    TEXT = "text"
    JSON = "json"


_log_format = LogFormat.TEXT


def log_as(chosen: LogFormat) -> None:
    """Let `say` write in the format *chosen* from now on."""
    global _log_format
    _log_format = chosen


def say(message: str) -> None:
    """Tell the operator: one line on stderr, and no error of its own if nobody listens."""
    line = inert(message) if _log_format is LogFormat.TEXT else _log_line(message)
    try:
        # One write: the lines of threads that speak at the same time stay apart.
        print(f"{line}\n", end="", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        # Closed stderr: the exit code still speaks.
        return


@contextmanager
def waits_said() -> Iterator[None]:
    """While the block runs, say whom it waits for once it has waited for a while (S50)."""
    from breakglass.services.clock import WAITS

    over = Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            for whom in WAITS.overdue():
                say(f"waiting: {whom}")

    Thread(target=look, name="waits", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _log_line(message: str) -> str:
    """*message* as a JSON object, in ASCII: inert, and nothing of it is lost."""
    at_ms = now_ms()
    return json.dumps({"at": time_text(at_ms), "at_ms": at_ms, "message": message})


def print_lines(lines: Iterable[str]) -> None:
    """Print *lines* on stdout: data in sentences, as above and below a table."""
    for line in lines:
        _write_line(inert(line))


def report(line: str, *, aside: bool) -> None:
    """Print the result *line* at once; *aside*: say it, as stdout is kept for other things."""
    if aside:
        say(line)
    else:
        print(inert(line), flush=True)


def data_aside(aside: bool) -> AbstractContextManager[object]:
    """In the block, what is printed goes to stderr if stdout is kept for a document."""
    return redirect_stdout(sys.stderr if aside else sys.stdout)


def print_json(document: object) -> None:
    """Print *document* on stdout as `json_text`: indented on a terminal, else on one line."""
    _write_line(json_text(document, 2 if sys.stdout.isatty() else None))


def json_text(document: object, indent: int | None = None) -> str:
    """Return *document* as one JSON text.

    Dataclasses become objects, an Unknown ``{"unknown": reason}``, UUIDs, paths and enums
    strings, sets sorted arrays. Only ASCII is written, so the text is inert and loses nothing.
    """
    return json.dumps(document, default=_plain, indent=indent, allow_nan=False)


def print_json_stream(head: Mapping[str, object], name: str, entries: Iterable[object]) -> None:
    """Print as `print_json` what *head* becomes with the array *name* of *entries* as its end.

    Except on a terminal, each entry is written before the next hundred are made.
    """
    if sys.stdout.isatty():
        print_json({**head, name: list(entries)})
        return
    encoder = json.JSONEncoder(default=_plain, allow_nan=False)
    remaining = iter(entries)
    opening = encoder.encode({**head, name: []}).removesuffix("]}")
    while chunk := list(islice(remaining, ENTRIES_AT_ONCE)):
        sys.stdout.write(opening + encoder.encode(chunk)[1:-1])
        opening = ", "
    _write_line("]}" if opening == ", " else f"{opening}]}}")


def _write_line(line: str) -> None:
    """Print *line* in one piece: by itself `print` writes the end of a line apart."""
    print(f"{line}\n", end="")


def members(of: object, names: str) -> dict[str, Any]:
    """A part of a document: the attributes of *of* whose *names* stand with blanks between."""
    return {name: getattr(of, name) for name in names.split()}


def of_partition(partition: TopicPartition) -> dict[str, Any]:
    """A part of a document: what names *partition*."""
    return {"topic": partition.topic, "partition": partition.partition}


def _plain(value: object) -> object:
    """Return a form of *value* that JSON has. Raises TypeError when there is none."""
    if isinstance(value, Unknown):
        return {"unknown": value.reason}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, UUID | PurePath):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, frozenset | set):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    right: bool = False
    """Numbers stand to the right."""
    whole: bool = False
    """Not folded while others can be: what is copied into another command."""


def columns(*titles: str) -> tuple[Column, ...]:
    """Columns by their titles: ``>Records`` stands to the right, ``=Journal`` is not folded."""
    return tuple(
        Column(title.lstrip(">="), right=title.startswith(">"), whole=title.startswith("="))
        for title in titles
    )


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> None:
    """Print *rows* on stdout under the columns' titles, each value as `shown`.

    On a terminal cells that do not fit are folded, never cut; elsewhere each row is one line.
    """
    cells = [[shown(value) for value in row] for row in rows]
    if sys.stdout.isatty():
        _print_on_terminal(columns, cells)
    else:
        table = [[column.title for column in columns], *cells]
        widths = [max(map(len, texts)) for texts in zip(*table, strict=True)]
        for row in table:
            padded = (
                text.rjust(width) if column.right else text.ljust(width)
                for text, width, column in zip(row, widths, columns, strict=True)
            )
            _write_line("  ".join(padded).rstrip())


def _print_on_terminal(columns: Sequence[Column], cells: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            Text(column.title),
            justify="right" if column.right else "left",
            overflow="fold",
            no_wrap=column.whole,
        )
    for row in cells:
        # Text, not str: rich reads markup in strings.
        table.add_row(*map(Text, row))
    Console(markup=False, highlight=False, emoji=False).print(table)
