"""Runs the operator's own editor on a text, with the terminal given over to it."""

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

from breakglass.services.errors import StorageError, UsageError
from breakglass.services.regular_file import read_regular

FALLBACKS = ("sensible-editor", "vi", "nano")
"""Tried where neither VISUAL nor EDITOR is set."""
GO_TO_LINE = {
    *("vi", "vim", "nvim", "vim.tiny", "vim.basic", "view", "nano", "pico", "emacs"),
    *("emacsclient", "joe", "jed", "mg", "micro", "ne"),
}
"""Editors that take ``+12``."""
LARGEST = 256_000_000
"""Bytes of an edited file that are read back."""

MOST_BYTES = 1024 * 1024 * 1024
"""No such file is larger."""


def editor_command(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The operator's editor as words of a command.

    Raises:
        UsageError: none is named that exists, and none is found.
    """
    named = environ.get("VISUAL") or environ.get("EDITOR")
    if not named:
        found = next((one for one in FALLBACKS if shutil.which(one)), None)
        if found is None:
            raise UsageError("No editor is found: set EDITOR to the one to use.")
        return [found]
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise UsageError(f"EDITOR is no command ({error}): set it to your editor.") from error
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"The editor {named!r} is not found: set EDITOR to one that is.")
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
        _write(path, text)
        at = [f"+{line}"] if Path(command[0]).name in GO_TO_LINE else []
        with terminal(), _interrupts_are_the_editors():
            code = _run([*command, *at, str(path)])
        if code:
            raise UsageError(f"{command[0]} ended with {code}, so nothing was taken from it.")
        after = _read(path)
    return None if after == text else after


def _run(command: list[str]) -> int:
    try:
        return subprocess.run(command, check=False).returncode
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be run ({error.strerror}): set EDITOR.") from error


def _write(path: Path, text: str) -> None:
    try:
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror}): make room there or set TMPDIR."
        ) from error


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError("What the editor left is far too large to be a plan.")
        return read_regular(path, MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise StorageError(
            f"What the editor left cannot be read ({error.strerror}): edit it again."
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"What the editor left is not UTF-8 at byte {error.start}: edit it again."
        ) from error


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
