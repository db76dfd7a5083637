"""What docs/acls.md says that each command has to be allowed: the tests hold it to that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "acls.md"
ROW = re.compile(r"^\| `([^`]+)` \|([^|]*)\|([^|]*)\|([^|]*)\|$")
"""Command; operations on its topics, on CLUSTER, on groups."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The operations that one command needs, on its topics, on CLUSTER and on groups."""

    command: str
    topic: tuple[str, ...]
    cluster: tuple[str, ...]
    group: tuple[str, ...]


def needs_of_commands() -> dict[str, Needs]:
    """The page's first table, by command."""
    return {row.command: row for row in _rows()}


def _rows() -> Iterator[Needs]:
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if row := ROW.match(line):
            command, *cells = row.groups()
            yield Needs(command, *(tuple(re.findall(r"[A-Z_]+", cell)) for cell in cells))
