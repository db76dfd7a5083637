"""Whether a backup can go through kafka-console-producer, as KLIP-31 restores it.

That program cuts each line at the first ':' and takes each line end for the end of a record, so a
name with ':' in it, or a value with a line end, would become another command without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from breakglass.services.errors import Refused
from breakglass.services.metastore.lines import BackupLine, LineProblem, read_lines
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.folder import storage_errors


def producible_lines(file: Path) -> Iterator[bytes]:
    """The lines of *file*, once all of them are known to survive; blank ones are left out.

    Raises:
        Refused: a line would not.
        StorageError: it cannot be read.
    """
    with storage_errors(str(file)), open_regular(file) as data:
        for line in read_lines(data):
            problem = _problem(line)
            if problem:
                raise Refused(
                    f"{file.name} line {line.number} {problem}, so kafka-console-producer would "
                    "write another command: use `breakglass metastore restore --from` for this one"
                )
        data.seek(0)
        yield from (line for line in data if line.strip())


def _problem(line: BackupLine) -> str:
    if line.problem is LineProblem.BLANK:
        return ""
    if line.problem is not None:
        return f"is of the kind: {line.problem.value}"
    if b":" in line.key:
        return "has ':' in its name"
    return "holds a carriage return" if b"\r" in line.key + line.value else ""
