"""Calling something again and again while other work blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from services.errors import StorageError


@contextmanager
def repeating(call: Callable[[], None], seconds: float) -> Iterator[None]:
    """Call *call* every so many *seconds* in a thread of its own, until the block ends.

    A StorageError of one call only leaves that one out: files come and go meanwhile.
    """
    over = threading.Event()

    def run() -> None:
        while not over.wait(seconds):
            try:
                call()
            except StorageError:
                continue

    thread = threading.Thread(target=run, name="watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
