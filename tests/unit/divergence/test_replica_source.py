"""A replica's log as a stream: records, markers, and damage in its place."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from breakglass.services.connection.security import ClientSecurity
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.divergence.entry import (
    Item,
    RecordEntry,
    UnreadableRange,
    address,
)
from breakglass.services.divergence.replica_source import ReplicaSource
from breakglass.services.divergence.source import Abandoned, Extent, Reading
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition
from breakglass.services.snapshot import Broker
from tests.fuzz.damage import Damage, damage
from tests.kit.extent import examples
from tests.kit.fake_broker import FakeBroker
from tests.unit.divergence.damaged_log import DamagedLog
from tests.unit.kafka.replicas.held_log import HeldLog, tens

ORDERS = TopicPartition("orders", 3)
B2 = 2
READING = Reading()


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as made:
        yield made


@pytest.fixture
def sender(broker: FakeBroker) -> Iterator[Sender]:
    at = broker.endpoint
    made = Sender((at,), ClientSecurity(ConnectionSettings((at,))), api_keys.READ)
    made.learn([Broker(B2, at.host, at.port)])
    yield made
    made.close()


def source(sender: Sender, start: int, end: int, *, gapless: bool = True) -> ReplicaSource:
    return ReplicaSource(sender, B2, ORDERS, Extent(start, end), gapless, request_seconds=300.0)


def spans(items: list[Item]) -> list[tuple[int, int]]:
    """Neighbouring records as one span, each damage as its own; damage is negative."""
    found: list[tuple[int, int]] = []
    for item in items:
        if isinstance(item, UnreadableRange):
            found.append((-item.start, -item.end))
        elif found and found[-1][1] == item.offset:
            found[-1] = (found[-1][0], item.offset + 1)
        else:
            found.append((item.offset, item.offset + 1))
    return found


def flipped(one: bytes, at: int) -> bytes:
    """*one* with a bit of the byte at *at* turned over."""
    return one[:at] + bytes([one[at] ^ 0x10]) + one[at + 1 :]


@pytest.mark.parametrize("chunk_bytes", [1, 700, 10_000])
def test_after_a_batch_of_another_crc_it_goes_on(
    broker: FakeBroker, sender: Sender, chunk_bytes: int
) -> None:
    log = DamagedLog(ORDERS, tens(0, 50))
    log.replace(2, flipped(log.batches[2], 100))
    log.serve(broker)
    items = list(source(sender, 0, 50).read(0, 50, Reading(chunk_bytes=chunk_bytes)))
    assert spans(items) == [(0, 20), (-20, -30), (30, 50)]
    (damaged,) = [item for item in items if isinstance(item, UnreadableRange)]
    assert "orders-3 on b2, batch at offset 20" in damaged.reason


@pytest.mark.parametrize("chunk_bytes", [1, 700, 10_000])
@pytest.mark.parametrize("place", [0, 2, 4])
def test_a_batch_of_another_format_hides_no_neighbour(
    broker: FakeBroker, sender: Sender, chunk_bytes: int, place: int
) -> None:
    held = tens(0, 50)
    log = DamagedLog(ORDERS, held)
    log.serve(broker)
    wrong = held[place][:16] + b"\x01" + held[place][17:]
    log.replace(place, wrong)
    items = list(source(sender, 0, 50).read(0, 50, Reading(chunk_bytes=chunk_bytes)))
    told = {item.offset for item in items if isinstance(item, RecordEntry)}
    assert told == set(range(50)) - set(range(10 * place, 10 * place + 10))
    assert spans([item for item in items if isinstance(item, UnreadableRange)])[0][0] == -10 * place


@pytest.mark.parametrize(
    ("held", "end", "start", "gapless", "expected"),
    [
        (tens(0, 50), None, 25, True, [(25, 31)]),
        (tens(0, 20), 50, 0, True, [(0, 20), (-20, -31)]),
        (tens(0, 30), None, 20, True, [(20, 30), (-30, -31)]),
        ([*tens(0, 10), *tens(30, 40)], 60, 0, False, [(0, 10), (30, 31)]),
    ],
    ids=["within batches", "half is not whole", "truncated meanwhile", "compacted"],
)
def test_a_stretch_comes_as_far_as_the_log_holds_it(
    broker: FakeBroker,
    sender: Sender,
    held: list[bytes],
    end: int | None,
    start: int,
    gapless: bool,
    expected: list[tuple[int, int]],
) -> None:
    HeldLog(ORDERS, held, end=end).serve(broker)
    found = source(sender, 0, 50, gapless=gapless).read(start, 31, READING)
    assert spans(list(found)) == expected


def test_a_reading_that_nobody_waits_for_ends(broker: FakeBroker, sender: Sender) -> None:
    HeldLog(ORDERS, tens(0, 200)).serve(broker)
    steps = itertools.count()

    def go_on() -> None:
        if next(steps) == 5:
            raise Abandoned

    with pytest.raises(Abandoned):
        list(source(sender, 0, 200).read(0, 200, Reading(chunk_bytes=1_000, go_on=go_on)))
    assert len(broker.received) < 5


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 4), apply=damage(), chunk_bytes=st.sampled_from([1, 900, 10_000]))
def test_whatever_a_log_holds_the_stream_ends_and_is_in_order(
    broker: FakeBroker, sender: Sender, place: int, apply: Damage, chunk_bytes: int
) -> None:
    log = DamagedLog(ORDERS, tens(0, 50))
    log.serve(broker)
    log.replace(place, apply(log.batches[place]))
    items = list(source(sender, 0, 50).read(0, 50, Reading(chunk_bytes=chunk_bytes)))
    ends = [item.offset + 1 if isinstance(item, RecordEntry) else item.end for item in items]
    assert all(end <= address(after) for end, after in zip(ends, items[1:], strict=False))
    assert ends[-1] == 50
    whole = set(range(10 * place))
    assert whole <= {item.offset for item in items if isinstance(item, RecordEntry)}
