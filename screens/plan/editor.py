"""The operator's editor, which a plan is edited in as a text."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.services.connection.secret import without_secrets
from breakglass.services.errors import StorageError, UsageError
from breakglass.services.regular_file import read_regular

if TYPE_CHECKING:
    pass


FALLBACKS = ("sensible-editor", "vi", "nano")
"""Tried where neither VISUAL nor EDITOR is set."""
GO_TO_LINE = {
    *("vi", "vim", "nvim", "vim.tiny", "vim.basic", "view", "nano", "pico", "emacs"),
    *("emacsclient", "joe", "jed", "mg", "micro", "ne"),
}
"""Editors that take ``+12``."""
LARGEST = 256_000_000
"""Bytes of an edited file that are read back."""


def editor_command(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The operator's editor as words of a command.

    Raises UsageError: none is named that exists, and none is found.
    """
    named = environ.get("VISUAL") or environ.get("EDITOR")
    if not named:
        found = next((editor for editor in FALLBACKS if shutil.which(editor)), None)
        if found is None:
            raise UsageError("No editor was found: set EDITOR to your editor.")
        return [found]
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise UsageError(f"EDITOR is no command ({error}): set it to your editor.") from error
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"The editor {named!r} was not found: set EDITOR to an installed editor.")
    return words


def edited(
    text: str, line: int, terminal: Callable[[], AbstractContextManager[None]]
) -> str | None:
    """*text* as the operator's editor left it, begun at *line*; None if it was not changed.

    *terminal* gives the terminal over for as long as the editor runs.

    Raises:
        UsageError: there is no editor, or it failed.
        StorageError: the text cannot be written or read back.
    """
    command = editor_command()
    with tempfile.TemporaryDirectory(prefix="breakglass-plan-") as folder:
        path = Path(folder, "plan.json")
        try:
            path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise StorageError(
                f"{path} cannot be written ({error.strerror}): make room there or set TMPDIR."
            ) from error
        at = [f"+{line}"] if Path(command[0]).name in GO_TO_LINE else []
        whole, environ = [*command, *at, str(path)], without_secrets(os.environ)
        with terminal(), _interrupts_are_the_editors():
            try:
                code = subprocess.run(whole, env=environ, check=False).returncode
            except OSError as error:
                why = f"{command[0]} cannot be run ({error.strerror}): set EDITOR."
                raise UsageError(why) from error
        if code:
            raise UsageError(f"{command[0]} ended with {code}, so its text was not used.")
        try:
            if path.stat().st_size > LARGEST:
                raise UsageError("The edited file is far too large to be a plan.")
            after = read_regular(path, LARGEST).decode("utf-8-sig")
        except OSError as error:
            raise StorageError(
                f"The edited file cannot be read ({error.strerror}): edit it again."
            ) from error
        except UnicodeDecodeError as error:
            raise UsageError(
                f"The edited file is not UTF-8 at byte {error.start}: edit it again."
            ) from error
    return None if after == text else after


@contextmanager
def _interrupts_are_the_editors() -> Iterator[None]:
    """Ctrl+C reaches the whole job: while the editor has the terminal it does not end us.

    Ignored and not handled, for a handler would still wake the loop's own. An editor that goes
    by this signal sets it for itself.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
