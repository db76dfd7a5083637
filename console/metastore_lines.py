"""`breakglass metastore lines`: a backup's lines for kafka-console-producer, if they survive it."""

from __future__ import annotations

import sys

from breakglass.console.metastore_options import BackupFile


def lines(file: BackupFile) -> None:
    """Print the lines of a backup for kafka-console-producer, the way of KLIP-31.

    Refused, before anything is printed, where that program would split a line wrongly: a name with
    ':' in it, a value with a line end. `metastore restore` keeps those, and offsets as well.
    """
    from breakglass.services.metastore.console_producer import producible_lines

    for line in producible_lines(file):
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
