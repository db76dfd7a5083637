"""Makes false answers of a broker's true ones: torn, huge, endless, late, twice, impossible.

A seed decides which kinds of falsehood a peer is capable of, how often, and for which requests, so
that one seed is a broker that drips and another one that lies in a single field.
"""

import random
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from breakglass.services.kafka.wire.passing import Head

NASTY_INTS = (-1, 0, 1, -7, -100, 2**31 - 1, -(2**31), 2**15 - 1, 0x7F7F7F7F, 2**28)
NASTY_LONGS = (-1, -100, 2**63 - 1, -(2**63), 2**53, 2**40)
ESCAPES = (
    b"\x1b[2J",
    b"\x1b]0;x\x07",
    b"\x00\x00",
    b"\x9b31m",
    "\u202e".encode(),
    b"\r\n",
    b"\xff",
)
SPARED = {18}
"""ApiVersions, most of the time: a peer whose greeting fails is not asked anything else."""


def flipped(rng: random.Random, answer: bytes) -> bytes:
    """A few bits are others."""
    changed = bytearray(answer)
    for _ in range(rng.randint(1, 8) if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def renumbered(rng: random.Random, answer: bytes) -> bytes:
    """A number is one that cannot be."""
    long = rng.random() < 0.5
    number = struct.pack(">q" if long else ">i", rng.choice(NASTY_LONGS if long else NASTY_INTS))
    at = rng.randrange(4, max(5, len(answer)))
    return answer[:at] + number + answer[at + len(number) :]


def shortened(rng: random.Random, answer: bytes) -> bytes:
    """The end is missing."""
    return answer[: rng.randrange(len(answer) + 1)]


def lengthened(rng: random.Random, answer: bytes) -> bytes:
    """Something stands in between."""
    at = rng.randrange(len(answer) + 1)
    return answer[:at] + rng.randbytes(rng.randint(1, 64)) + answer[at:]


def repeated(rng: random.Random, answer: bytes) -> bytes:
    """A piece stands there many times."""
    at = rng.randrange(len(answer) + 1)
    piece = answer[at : at + rng.randint(1, 200)]
    return answer[:at] + piece * rng.choice((2, 3, 50_000)) + answer[at:]


def escaped(rng: random.Random, answer: bytes) -> bytes:
    """A text holds what a terminal would obey."""
    places = [at for at in range(8, len(answer) - 8) if answer[at : at + 6].isalnum()]
    if not places:
        return answer
    at, escape = rng.choice(places), rng.choice(ESCAPES)
    return answer[:at] + escape + answer[at + len(escape) :]


def random_bytes(rng: random.Random, answer: bytes) -> bytes:
    """Nothing of it is Kafka's but the correlation id."""
    return answer[:4] + rng.randbytes(rng.randint(0, 4_000))


def uncorrelated(rng: random.Random, answer: bytes) -> bytes:
    """It answers another request."""
    return rng.randbytes(4) + answer[4:]


Alteration = Callable[[random.Random, bytes], bytes]
ALTERATIONS: tuple[Alteration, ...] = (
    flipped,
    renumbered,
    shortened,
    lengthened,
    repeated,
    escaped,
    random_bytes,
    uncorrelated,
)
DELIVERIES = ("sized", "twice", "dripped", "endless", "silent", "reset")


@dataclass
class Peer:
    """A false broker; call it with a request's header and the true answer."""

    seed: int
    ended: threading.Event = field(default_factory=threading.Event)
    """Set it, and what is slow or silent ends."""
    told: list[str] = field(default_factory=list)
    """What was done to which api."""

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        self._rng, self._lock = rng, threading.Lock()
        self._rate = rng.choice((0.02, 0.1, 0.3, 1.0))
        self._alterations = rng.sample(ALTERATIONS, rng.randint(1, 3))
        self._deliveries = rng.sample(DELIVERIES, rng.choice((0, 0, 1, 2)))
        self._greets = rng.random() < 0.85
        self._apis = set(rng.sample(range(80), 40)) if rng.random() < 0.3 else set(range(256))

    def __call__(self, head: Head, answer: bytes) -> Iterator[bytes]:
        """The bytes to send, a frame's length first."""
        with self._lock:
            spared = (head.api_key in SPARED and self._greets) or head.api_key not in self._apis
            if spared or self._rng.random() >= self._rate:
                return iter((framed(answer),))
            kinds: list[Alteration | str] = [*self._alterations, *self._deliveries]
            kind, rng = self._rng.choice(kinds), random.Random(self._rng.random())
        if isinstance(kind, str):
            self.told.append(f"{head.api_key} {kind}")
            return self._delivered(kind, rng, answer)
        altered = kind(rng, answer)
        self.told.append(f"{head.api_key} {kind} {answer.hex()[:900]} -> {altered.hex()[:900]}")
        return iter((framed(altered),))

    def _delivered(self, kind: str, rng: random.Random, answer: bytes) -> Iterator[bytes]:
        if kind == "sized":
            size = rng.choice((2**31 - 1, 256 << 20, 100 << 20, -1, 0, 3, len(answer) + 1))
            yield struct.pack(">i", size) + answer
        elif kind == "twice":
            yield framed(answer) * 2
        elif kind == "reset":
            raise ConnectionResetError
        elif kind == "endless":
            yield struct.pack(">i", 1 << 30) + answer
            while not self.ended.is_set():
                yield bytes(1 << 20)
        else:
            given = framed(answer) if kind == "dripped" else b""
            for at in range(len(given)):
                if self.ended.wait(0.25):
                    break
                yield given[at : at + 1]
            self.ended.wait()
            raise ConnectionResetError


def framed(answer: bytes) -> bytes:
    """*answer* after its length."""
    return struct.pack(">i", len(answer)) + answer
