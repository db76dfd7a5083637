"""SIGTERM and Ctrl-C: at once while nothing has been sent, afterwards between two batches."""

from __future__ import annotations

import signal
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopSignal:
    """While entered, `requested` tells whether a signal asked to stop.

    Until `armed` is called a signal raises KeyboardInterrupt at once, because nothing has
    been sent; from then on the work under way is finished, journalled and reported first.
    """

    def __init__(self) -> None:
        self.requested = False
        self._armed = False
        self._before: dict[int, object] = {}

    def armed(self) -> None:
        self._armed = True

    def __enter__(self) -> StopSignal:
        for number in _SIGNALS:
            # `nohup` has a lost terminal ignored, and means it. A shell that ignores Ctrl-C for
            # what it runs in the background does not mean `kill -INT`.
            if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True
        if not self._armed:
            raise KeyboardInterrupt
