"""Writes the file of KIP-1275 that names a designated leader for each partition."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from breakglass.services.errors import StorageError
from breakglass.services.recovery.plan.partition_file import Election
from breakglass.services.rights import open_new


def write_elections(elections: Sequence[Election], path: Path) -> None:
    """Write *elections* to a new file at *path*, on disk when this returns.

    Raises:
        StorageError: the file exists, or cannot be written; nothing is overwritten.
    """
    text = render_elections(elections)
    try:
        with open(path, "x", encoding="utf-8", opener=open_new) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError as error:
        raise StorageError(f"{path} exists and is not overwritten: name a new file") from error
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror}): name a file in a folder of yours"
        ) from error


def render_elections(elections: Sequence[Election]) -> str:
    """The file's text: one line for each partition, as the KIP prints it."""
    entries = [
        {"topic": one.partition.topic, "partition": one.partition.partition}
        | ({} if one.designated is None else {"designatedLeader": one.designated})
        for one in elections
    ]
    lines = ",\n".join(f"    {json.dumps(entry)}" for entry in entries)
    return f'{{\n  "partitions": [\n{lines}\n  ]\n}}\n'
