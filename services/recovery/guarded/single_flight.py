"""One run for one consent: a second attempt is refused, not queued."""

from __future__ import annotations

import threading

from services.errors import AlreadyRunning


class SingleFlight:
    """Lets the first attempt through. For use by many threads.

    Attempts of other sessions and processes are kept out by the cluster's lock.
    """

    def __init__(self) -> None:
        self._begun = threading.Lock()

    def begin(self) -> None:
        """Return for the first caller.

        Raises:
            AlreadyRunning: somebody was first.
        """
        if not self._begun.acquire(blocking=False):
            raise AlreadyRunning(
                "this was begun already, and a consent is good for one run: wait until that ends, "
                "then look at the cluster again"
            )
