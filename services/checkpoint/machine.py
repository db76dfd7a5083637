"""Names the machine whose workers copy: two machines must not work as the same node.

Workers of one machine exclude each other by a lock in its state folder (`node_lock`), so a machine
is whatever shares that folder. Its name is made once, and kept there.
"""

from __future__ import annotations

import os
import re
import socket
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from breakglass.services.errors import StorageError
from breakglass.services.guard.lock import private_folder
from breakglass.services.regular_file import read_regular
from breakglass.services.state_folder import state_folder

MOST_BYTES = 512
_NAME = re.compile(r"[0-9a-f]{32}@[^\s@]{0,255}")


def this_machine(folder: Path | None = None) -> str:
    """``ID@HOST``: the ID tells machines apart, the host name tells people which it is.

    *folder*: the state folder; None: the user's.

    Raises:
        StorageError: the name cannot be read or kept.
    """
    path = private_folder(folder or state_folder()) / "machine"
    host = "".join(socket.gethostname().split()).replace("@", "")
    own = path.with_name(f".machine-{uuid4().hex}")
    try:
        if not path.exists():
            own.write_text(f"{uuid4().hex}@{host[:255]}\n")
            # Of two processes that make a name at the same time, the first one decides.
            with suppress(FileExistsError):
                os.link(own, path)
        found = read_regular(path, MOST_BYTES).decode("utf-8", "replace").strip()
    except OSError as error:
        raise StorageError(
            f"{path} cannot be used ({error.strerror}): check its rights, or remove it"
        ) from error
    finally:
        own.unlink(missing_ok=True)
    if not _NAME.fullmatch(found):
        raise StorageError(f"{path} holds no name of a machine: remove it")
    return found


def same_machine(one: str, other: str) -> bool:
    """Whether two names are of one machine, which may have got another host name."""
    return one.partition("@")[0] == other.partition("@")[0]


def host_of(machine: str) -> str:
    """The host name in a machine's name, for messages."""
    return machine.partition("@")[2] or "?"
