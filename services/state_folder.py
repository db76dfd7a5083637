"""Where a user's journals, rescues and locks are, which other accounts neither read nor write."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from breakglass.services.errors import Refused

_OTHERS, _WRITERS = 0o077, 0o022


def state_folder(say: Callable[[str], object] = lambda _: None) -> Path:
    """The user's state folder; if it is there, for its owner alone.

    It is made so if it was not, and *say* gets a sentence if others could write to it.

    Raises:
        Refused: it belongs to another account, which chooses what is in it.
    """
    import platformdirs

    folder = platformdirs.user_state_path("breakglass")
    try:
        found = folder.stat()
        if found.st_uid == os.geteuid() and found.st_mode & _OTHERS:
            folder.chmod(0o700)
            if found.st_mode & _WRITERS:
                say(
                    f"other accounts could write to {folder} until this moment: believe a journal "
                    "or a rescue in it only if you know who made it"
                )
    except OSError:
        return folder  # Who writes to it finds out why.
    if found.st_uid != os.geteuid():
        raise Refused(
            f"{folder} belongs to another account (user id {found.st_uid}), which can change what "
            "is in it: name a folder of your own in XDG_STATE_HOME"
        )
    return folder
