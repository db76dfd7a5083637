"""Raw batches of any replica: every offset once, whatever is cut, throttled or truncated."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from kafka.protocol.consumer import FetchResponse

from breakglass.services import errors
from breakglass.services.connection.security import ClientSecurity
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.kafka.replicas.replica_records import ReplicaRecords
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition
from breakglass.services.snapshot import Broker
from tests.kit.fake_broker import FakeBroker
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.kafka.replicas.held_log import HeldLog, tens

ORDERS = TopicPartition("orders", 3)
B2 = 2
RESCUE = "breakglass-rescue"


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker() as made:
        yield made


@pytest.fixture
def sender(broker: FakeBroker) -> Iterator[Sender]:
    at = (broker.endpoint,)
    security = ClientSecurity(ConnectionSettings(at))
    with closing(
        Sender(at, security, api_keys.READ, client_id=RESCUE, connect_seconds=DEADLINE_SECONDS)
    ) as made:
        made.learn([Broker(B2, at[0].host, at[0].port)])
        yield made


def reader(
    sender: Sender, *, chunk_bytes: int = 2**20, seconds: float = DEADLINE_SECONDS
) -> ReplicaRecords:
    return ReplicaRecords(sender, B2, ORDERS, chunk_bytes=chunk_bytes, request_seconds=seconds)


def offsets(log: ReplicaRecords, start: int, end: int) -> list[tuple[int, int]]:
    """First and next offset of every batch, in the order they came."""
    return [
        (header.base_offset, header.next_offset)
        for chunk in log.chunks(start, end)
        for header in chunk.headers
    ]


@pytest.mark.parametrize("chunk_bytes", [1, 100, 450, 1_000, 1_300])
def test_a_cut_batch_is_read_again_from_its_start_and_no_more_is_held_than_was_asked_for(
    broker: FakeBroker, sender: Sender, chunk_bytes: int
) -> None:
    log = HeldLog(ORDERS, tens(0, 80))
    log.serve(broker)
    chunks = list(reader(sender, chunk_bytes=chunk_bytes).chunks(0, 80))
    found = [(one.base_offset, one.next_offset) for chunk in chunks for one in chunk.headers]
    assert found == [(first, first + 10) for first in range(0, 80, 10)]
    assert max(len(chunk.data) for chunk in chunks) <= max(chunk_bytes, len(log.batches[0]))


@pytest.mark.parametrize(("start", "end"), [(0, 10), (60, 70), (40, 70)])
def test_a_log_that_no_longer_holds_the_offset_has_moved_and_is_not_at_its_end(
    broker: FakeBroker, sender: Sender, start: int, end: int
) -> None:
    HeldLog(ORDERS, tens(20, 50), start=20).serve(broker)
    with pytest.raises(errors.EvidenceChanged):
        offsets(reader(sender), start, end)


def test_a_throttle_and_a_passing_error_are_waited_out(broker: FakeBroker, sender: Sender) -> None:
    log = HeldLog(ORDERS, tens(0, 20))
    throttled = FetchResponse(throttle_time_ms=50, responses=[])
    log.mishaps = [lambda: throttled, lambda: log.answer(6), lambda: log.answer(3)]
    log.serve(broker)
    assert offsets(reader(sender), 0, 20) == [(0, 10), (10, 20)]


def test_s50_no_request_of_a_reading_outlasts_its_deadline(
    broker: FakeBroker, sender: Sender
) -> None:
    HeldLog(ORDERS, tens(0, 20)).serve(broker)
    log = replace(reader(sender), deadline=Deadline.after(0))
    with pytest.raises(errors.TimedOut):
        offsets(log, 0, 20)
    assert not broker.received


def test_a_throttle_or_a_death_that_lasts_is_an_error(broker: FakeBroker, sender: Sender) -> None:
    log = HeldLog(ORDERS, tens(0, 20))
    log.mishaps = [lambda: FetchResponse(throttle_time_ms=3_600_000, responses=[])]
    log.serve(broker)
    with pytest.raises(errors.TimedOut):
        offsets(reader(sender, seconds=0.5), 0, 20)
    broker.stop()
    with pytest.raises(errors.ConnectFailed):
        offsets(reader(sender, seconds=0.5), 0, 20)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (29, errors.NotAuthorized),
        (56, errors.ClusterError),
        (109, errors.EvidenceChanged),
        (76, errors.ClusterError),
    ],
    ids=["not allowed", "offline directory", "remote storage", "any other error"],
)
def test_a_refusal_is_an_error_of_its_kind(
    broker: FakeBroker, sender: Sender, code: int, error: type[Exception]
) -> None:
    log = HeldLog(ORDERS, tens(0, 20))
    log.mishaps = [lambda: log.answer(code)]
    log.serve(broker)
    with pytest.raises(error):
        offsets(reader(sender), 0, 20)
