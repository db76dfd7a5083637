"""Damage to any bytes, drawn by Hypothesis, and a bound to the memory that reading them takes."""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hypothesis import strategies as st

from breakglass.services.topic_backup.segment_reader import CHUNK_BYTES

MEMORY = 3 * CHUNK_BYTES
"""A chunk, what it is joined from, and the records of a file far smaller than one."""

Damage = Callable[[bytes], bytes]


@st.composite
def damage(draw: st.DrawFn) -> Damage:
    """Cut, flip, overwrite, insert or drop: somewhere, a few times."""
    kinds = st.sampled_from(["cut", "flip", "number", "insert", "drop"])
    step = st.tuples(kinds, st.floats(0, 1), st.binary(min_size=4, max_size=4))
    steps = draw(st.lists(step, min_size=1, max_size=4))

    def apply(content: bytes) -> bytes:
        for kind, where, extra in steps:
            at = int(where * len(content))
            content = {
                "cut": content[:at],
                "flip": content[:at]
                + bytes(b ^ 1 << extra[0] % 8 for b in content[at : at + 1])
                + content[at + 1 :],
                "number": content[:at] + extra + content[at + 4 :],
                "insert": content[:at] + extra + content[at:],
                "drop": content[:at] + content[at + 4 :],
            }[kind]
        return content

    return apply


@contextmanager
def bounded(limit: int = MEMORY) -> Iterator[None]:
    """Fail when more than *limit* bytes are allocated at once."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit
