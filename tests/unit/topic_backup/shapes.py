"""Records of every shape, for hypothesis and for tests that need a few."""

from collections.abc import Sequence

from hypothesis import strategies as st

from breakglass.services.record_batches import Record, TimestampType

contents = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.binary(max_size=12), contents), max_size=4).map(tuple)
timestamps = st.integers(-(2**63), 2**63 - 1)


@st.composite
def record(draw: st.DrawFn, offset: int | None = None) -> Record:
    """Any record the format can hold."""
    kind = draw(st.sampled_from(TimestampType))
    return Record(
        offset=draw(st.integers(0, 2**63 - 1)) if offset is None else offset,
        timestamp_type=kind,
        timestamp=draw(timestamps) if kind.stamped else None,
        key=draw(contents),
        value=draw(contents),
        headers=draw(headers),
    )


@st.composite
def log(draw: st.DrawFn, min_size: int = 0, max_size: int = 12) -> list[Record]:
    """Records with rising offsets, with holes here and there."""
    steps = draw(st.lists(st.integers(1, 4), min_size=min_size, max_size=max_size))
    offset = draw(st.sampled_from([-1, 41, 10**10 - 3]))
    records = []
    for step in steps:
        offset += step
        records.append(draw(record(offset)))
    return records


def plain(offset: int, value: bytes = b"value", key: bytes | None = b"key") -> Record:
    """A record of 12 + 8 + 4 + 3 + 4 + 5 + 4 = 40 bytes."""
    return Record(offset, TimestampType.CREATE, 1_700_000_000_000 + offset, key, value)


def run(start: int, end: int) -> Sequence[Record]:
    """Plain records ``[start, end)``."""
    return [plain(offset) for offset in range(start, end)]
