"""What a proxy does to the requests that pass: hold them, delay them, or spoil the next few."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import Enum, auto


class Spoiling(Enum):
    """How a request is spoilt."""

    REFUSE = auto()
    """Answered with an error; the broker never sees it."""
    RESET_UNSENT = auto()
    """The connection is reset; the broker never sees it."""
    RESET_UNANSWERED = auto()
    """The broker serves it, then the connection is reset in place of the answer."""
    SWALLOW = auto()
    """The broker serves it, and the answer never comes."""


@dataclass(slots=True)
class SpoilOrder:
    """Spoil the next requests of one api."""

    api_key: int
    spoiling: Spoiling
    left: int
    error_code: int = 0
    whole: bool = False
    """Put the error at the top of the answer instead of in each of its items."""


class ProxyPolicy:
    """Orders and the gate; shared by every connection of a proxy."""

    def __init__(self) -> None:
        self._flowing = threading.Event()
        self._flowing.set()
        self._ended = threading.Event()
        self._orders: list[SpoilOrder] = []
        self._lock = threading.Lock()
        self.delay_seconds = 0.0
        """Added to every request before it is forwarded."""

    @property
    def flowing(self) -> bool:
        """False while hung."""
        return self._flowing.is_set()

    def hang(self) -> None:
        """Hold everything that comes, in both directions."""
        self._flowing.clear()

    def flow(self) -> None:
        """Let what is held go on."""
        self._flowing.set()

    def end(self) -> None:
        """Let every waiting thread go, for good."""
        self._ended.set()
        self._flowing.set()

    def wait_to_pass(self) -> None:
        """Wait while hung."""
        self._flowing.wait()

    def wait_delay(self) -> None:
        """Wait as long as a request is to be delayed."""
        if self.delay_seconds:
            self._ended.wait(self.delay_seconds)

    def add(self, order: SpoilOrder) -> None:
        """Carry out *order* after those given before for the same api."""
        with self._lock:
            self._orders.append(order)

    def take(self, api_key: int) -> SpoilOrder | None:
        """The order for a request that came just now, used up by one."""
        with self._lock:
            order = next((one for one in self._orders if one.api_key == api_key), None)
            if order is not None:
                order.left -= 1
                if order.left <= 0:
                    self._orders.remove(order)
            return order
