"""An acknowledged checkpoint taken to its end: what is said meanwhile, and where it ends early."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

from breakglass.console.checkpoint_documents import document
from breakglass.console.checkpoint_list import print_checkpoint
from breakglass.console.checkpoint_options import CONTROL
from breakglass.console.output import print_json, say
from breakglass.services.errors import BreakglassError

if TYPE_CHECKING:
    from breakglass.services.checkpoint.finishing import Finisher
    from breakglass.services.checkpoint.store.backup_store import BackupStore
    from breakglass.services.checkpoint.store.documents import Level
    from breakglass.services.checkpoint.store.stored import StoredCheckpoint

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def copied(finisher: Finisher, id: int, control_topic: str) -> StoredCheckpoint:
    """Have it copied, saying what becomes of each partition. Raises as `Finisher.finish`."""
    from breakglass.services.checkpoint.failure_text import name_of

    found = finisher.store.read(id)
    names = {} if found is None else {one.number: name_of(one) for one in found.partitions}
    stopped = (
        f"checkpoint {id} is acknowledged, and not copied yet: finish it with "
        f"`{go_on(finisher, id, control_topic)}`. Copies under way end first; a second signal "
        "ends them, too."
    )
    with told_when_stopped(stopped):
        return finisher.finish(id, lambda number, status: say(f"{names[number]}  {status}"))


def go_on(finisher: Finisher, id: int, control_topic: str) -> str:
    """The command that goes on with it."""
    words = ["breakglass", "checkpoint", "finish", str(id), "--store", finisher.store.address]
    if control_topic != CONTROL:
        words += ["--control-topic", control_topic]
    if finisher.node:
        words += ["--node", str(finisher.node)]
    return shlex.join(words)


@contextmanager
def told_when_stopped(words: str) -> Iterator[None]:
    """While entered, the first signal says *words* and interrupts; the second one ends at once.

    Raises:
        KeyboardInterrupt: a signal came.
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        for one in SIGNALS:
            signal.signal(one, signal.SIG_DFL)
        say(words)
        raise KeyboardInterrupt

    before = {one: signal.signal(one, stop) for one in SIGNALS}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextmanager
def failure_printed(
    store: BackupStore, request: str, level: Level, *, as_json: bool
) -> Iterator[None]:
    """Print on stdout what is stored of a request that fails, with the reason; the error goes on.

    With --json there is a document even where nothing is stored.
    """
    try:
        yield
    except BreakglassError as error:
        found = _of_request(store, request)
        if as_json:
            kept = {"id": None, "level": level, "state": None} if found is None else document(found)
            print_json({"schema": 1, **kept, "failure": kept.get("failure") or str(error)})
        elif found is not None:
            print_checkpoint(found)
        raise


def _of_request(store: BackupStore, request: str) -> StoredCheckpoint | None:
    # What the store does not tell now is no reason to hide the error that is told.
    with suppress(BreakglassError):
        id = store.id_of(request)
        return None if id is None else store.read(id)
    return None
