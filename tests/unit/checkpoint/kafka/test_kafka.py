"""What checkpoints read and write on Kafka: control records, headers, groups, states, holds."""

import struct
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.checkpoint.kafka.control import (
    LARGEST,
    ORIGIN,
    SN,
    SOURCE,
    Control,
    Created,
    LastOf,
    MovedRecords,
    RecordAddress,
    RecordOrigin,
    RestoredTopic,
    RetentionHold,
    Stamp,
    control_of,
    marker_headers,
    stamp_of,
    stamped,
    take_record,
)
from breakglass.services.checkpoint.kafka.deciding import greatest_common_cut
from breakglass.services.checkpoint.kafka.evidence import assigned_topics
from breakglass.services.checkpoint.kafka.holding import HELD, put_back, without_hold
from breakglass.services.checkpoint.kafka.logs import FROM_OUTSIDE, require_stamp
from breakglass.services.checkpoint.kafka.owners import (
    GroupLag,
    lags,
    promised_states,
    with_states,
)
from breakglass.services.checkpoint.kafka.transaction_logs import transaction_state
from breakglass.services.checkpoint.kafka.transactions import (
    TransactionWindow,
)
from breakglass.services.checkpoint.protocol.lineage import Lineage, RecordLineage
from breakglass.services.checkpoint.spark.partition_copy import needed_from
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    GroupCut,
    GroupPolicy,
    Level,
    NumberedPartition,
    TakeDocument,
    TransactionFloors,
)
from breakglass.services.errors import EvidenceChanged, MalformedMessage, Refused
from breakglass.services.kafka.cluster.group_offsets import OFFSETS_TOPIC
from breakglass.services.model import TopicPartition, log_of
from breakglass.services.record_batches import Record, TimestampType
from tests.kit.stamps import OUTSIDE

OLD, NEW = "a" * 32, "b" * 32
CREATED = Created("bank/of x", OLD, 3, 5, 120, b"\x00state")
RESTORED = RestoredTopic(NEW, 6, {3: (MovedRecords(RecordAddress(OLD, 3, 100), 40, 10),)})


def test_everything_is_read_back() -> None:
    found = control_of([take_record(7, 1), CREATED.record, RESTORED.record])
    assert found.latest_id == 7
    for records, latest in (([CREATED.record], 5), ([RESTORED.record], 6)):
        assert control_of(records).latest_id == latest, "whoever came to it"
    assert control_of([]).latest_id == 0
    assert found.created == {("bank/of x", OLD, 3): CREATED}
    assert found.restored == {NEW: RESTORED}


HELD_BACK = RetentionHold(
    OLD, "request/1", "orders", {"retention.ms": "1000", "retention.bytes": None}
)


def test_what_is_held_is_known_until_it_is_let_go() -> None:
    other = RetentionHold(OLD, "request/2", "orders", HELD_BACK.settings)
    let_go = RetentionHold(OLD, "request/1", "orders", None)
    assert control_of([HELD_BACK.record]).held == {(OLD, "request/1"): HELD_BACK}
    found = control_of([HELD_BACK.record, other.record, let_go.record])
    assert found.held == {(OLD, "request/2"): other}
    assert found.latest_id == 0


def test_of_an_owner_the_last_record_counts_with_what_it_had_seen_beside_its_state() -> None:
    seen = (LastOf(NEW, 2, "bank", 17, 1), LastOf(NEW, 3, "other/group", 5, 0))
    later = Created("bank/of x", OLD, 3, 8, 200, b"state", seen)
    assert control_of([CREATED.record, later.record]).created == {("bank/of x", OLD, 3): later}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"take/x", b"{}"),
        (b"take/0", b"{}"),
        (b"take/-5", b"{}"),
        (b"take/99999999999999999999", b"{}"),
        (b"created/only", b'{"id": 1, "position": 1, "state": null}'),
        (b"created/t/1/g", b"[]"),
        (b"created/t/1/g", b'{"id": 1, "position": 1, "state": "!"}'),
        (b"restored/t", b'{"id": 1, "moved": [1]}'),
        (b"restored/t", b'{"id": 1, "moved": {"0": [[1, 2]]}}'),
        (b"\xff", b"\xff"),
        (b"take/3", b"[" * 100_000),
        (b"other", b"{}"),
    ],
)
def test_what_is_none_of_ours_is_passed_over(key: bytes | None, value: bytes | None) -> None:
    assert control_of([(key, value)]) == Control()


TOPIC_ID = "0123456789abcdef0123456789abcdef"
HERE = TOPIC_ID.encode()
numbers = st.integers(0, LARGEST)
places = st.builds(RecordAddress, st.just(TOPIC_ID), numbers, numbers)
causes = st.builds(RecordOrigin, places, numbers, st.text())


@given(numbers, causes, st.none() | causes)
def test_h02_what_is_stamped_is_read_back(
    sn: int, cause: RecordOrigin, source: RecordOrigin | None
) -> None:
    assert stamp_of(stamped(sn, cause, source)) == Stamp(sn, cause, source or cause)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(SN, b"1")],
        [(ORIGIN, b"")],
        *([(SN, sn), (ORIGIN, b"")] for sn in (b"-1", b"1.0", b"", None, b"9" * 19)),
        *([(SN, b"1"), (ORIGIN, origin)] for origin in (b"somewhere", b"short:1:2:3:group")),
        *([(SN, b"1"), (ORIGIN, HERE + rest)] for rest in (b":1:-2:3:group", b":1:2:3:\xff")),
        [(SN, b"1"), (ORIGIN, HERE + b":1:2:3:g"), (SOURCE, b"elsewhere")],
    ],
)
def test_h10_headers_that_nobody_of_ours_writes_are_as_good_as_none(
    headers: list[tuple[str, bytes | None]],
) -> None:
    assert stamp_of(headers) is None


def test_markers_records_from_outside_and_bytes_as_the_log_has_them_are_told_apart() -> None:
    assert stamp_of(OUTSIDE) == Stamp(0, None)
    assert stamp_of(marker_headers(7)) == Stamp(7, None, marker=True)
    assert stamp_of([(SN.encode(), b"4"), (ORIGIN.encode(), b"")]) == Stamp(4, None)
    assert stamp_of([(SN, b"4"), (ORIGIN, b""), (SN, b"5")]) == Stamp(5, None), "the last counts"


ORDERS = TopicPartition("orders", 3)


def test_h10_a_record_without_headers_is_refused_by_its_place() -> None:
    with pytest.raises(Refused, match="offset 7 of orders-3"):
        require_stamp(ORDERS, 7, [], external=["carts"])


def test_h10_a_record_of_an_external_topic_comes_from_outside() -> None:
    assert require_stamp(ORDERS, 7, [], external=["orders"]) is FROM_OUTSIDE


ASSIGNMENT = (
    struct.pack(">hi", 1, 2)
    + b"\x00\x06orders"
    + struct.pack(">iii", 2, 0, 1)
    + b"\x00\x05carts"
    + struct.pack(">ii", 1, 7)
    + struct.pack(">i", -1)
)


def test_the_topics_of_an_assignment_are_read_and_what_is_none_names_none() -> None:
    assert assigned_topics(ASSIGNMENT) == {"orders", "carts"}
    for length in range(len(ASSIGNMENT) - 4):
        assert assigned_topics(ASSIGNMENT[:length]) == set()


@pytest.mark.parametrize(
    ("group", "partition"),
    # Hash codes 97, 99162322, -2147483648 (counted as 0), 7604755 and -109829509, modulo 50.
    [("a", 47), ("hello", 22), ("polygenelubricants", 0), ("\u00fcber", 5), ("billing", 9)],
)
def test_the_offsets_of_a_group_lie_where_its_name_says(group: str, partition: int) -> None:
    assert log_of(group, OFFSETS_TOPIC, 50).partition == partition


A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ENDS_OF_CUT = {A0: 10, A1: 20, B0: 30}


@pytest.mark.parametrize(
    ("committed", "behind"),
    [
        pytest.param({A0: 10, A1: 25}, None, id="at the cut in every partition of its topics"),
        pytest.param({A0: 9, A1: 20}, (A0, 9, 10), id="before the cut"),
        pytest.param({A0: 10}, (A1, 0, 20), id="without an offset of a partition"),
    ],
)
def test_h05_a_group_lags_that_has_not_processed_all_of_its_topics(
    committed: dict[TopicPartition, int], behind: tuple[TopicPartition, int, int] | None
) -> None:
    assert lags({"g": committed}, ENDS_OF_CUT) == (
        () if behind is None else (GroupLag("g", (behind,)),)
    )


ENDS = {1: 10, 2: 10, 3: 10}


def test_h08_what_one_group_lowers_lowers_the_others() -> None:
    committed = {"first": {1: 4}, "second": {2: 9}}
    records = {
        # Of a record that the first group had not processed when the ends were read.
        "first": [Lineage(2, 6, RecordLineage(1, 5))],
        # Which the second one has processed meanwhile.
        "second": [Lineage(3, 7, RecordLineage(2, 6))],
    }
    assert greatest_common_cut({1: 0, 2: 0, 3: 0}, ENDS, committed, records) == {1: 10, 2: 6, 3: 7}


TOPIC = UUID(int=7).hex
IDS = {TopicPartition("bank", 0): TOPIC}
TAKE = TakeDocument(5, Level.COORDINATED, (NumberedPartition(1, "bank", 0),), "nightly", 0)
CUT = CutDocument(0, {1: 100}, {"tellers": GroupCut(GroupPolicy.EXACTLY_ONCE, {1: 100})})
WHOLE, TRUNCATED = {1: 0}, {1: 40}


def saved(id: int, position: int, state: bytes | None) -> Created:
    return Created("tellers", TOPIC, 0, id, position, state)


def noted(*records: Created) -> Control:
    return control_of([record.record for record in records], since=TAKE.id)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param((saved(5, 99, b"it"), saved(6, 180, b"later")), id="behind later notes"),
        pytest.param((saved(6, 100, b"it"),), id="saved for the next one at the same record"),
    ],
)
def test_a_state_is_found_by_its_record_and_not_by_its_id(records: tuple[Created, ...]) -> None:
    control = noted(*records)
    cut = with_states(TAKE, CUT, IDS, TRUNCATED, control)
    assert promised_states(TAKE, cut, IDS, control) == {1: {"tellers": b"it"}}


def test_h10_a_state_that_another_checkpoint_has_taken_the_place_of_is_refused() -> None:
    with pytest.raises(Refused):
        with_states(TAKE, CUT, IDS, TRUNCATED, noted(saved(6, 180, b"later")))


def test_with_a_log_that_is_whole_it_is_replayed_and_the_copy_needs_all_of_it() -> None:
    cut = with_states(TAKE, CUT, IDS, WHOLE, noted(saved(6, 180, b"later")))
    assert (cut.groups["tellers"].states, cut.groups["tellers"].replayed) == ((), (1,))
    assert needed_from(1, cut, 0) == 0
    assert needed_from(1, CUT, 0) == 100


def test_h10_a_promised_state_that_is_gone_is_no_checkpoint_without_it() -> None:
    cut = with_states(TAKE, CUT, IDS, TRUNCATED, noted(saved(5, 99, b"at it")))
    for control in (Control(), noted(saved(6, 180, b"later")), noted(saved(5, 99, None))):
        with pytest.raises(EvidenceChanged):
            promised_states(TAKE, cut, IDS, control)


def test_h10_a_group_that_goes_on_before_its_state_needs_the_log_from_its_start() -> None:
    control = noted(saved(5, 99, b"at it"))
    lower = replace(CUT, groups={"tellers": GroupCut(GroupPolicy.AT_LEAST_ONCE, {1: 90})})
    cut = with_states(TAKE, lower, IDS, WHOLE, control)
    assert (cut.groups["tellers"].states, cut.groups["tellers"].replayed) == ((1,), (1,))
    with pytest.raises(Refused):
        with_states(TAKE, lower, IDS, TRUNCATED, control)


def test_h10_a_verified_checkpoint_holds_no_state_and_needs_the_log_from_its_start() -> None:
    verified = replace(TAKE, level=Level.VERIFIED)
    control = noted(saved(4, 50, b"before"))
    cut = with_states(verified, CUT, IDS, WHOLE, control)
    assert (cut.groups["tellers"].states, cut.groups["tellers"].replayed) == ((), (1,))
    with pytest.raises(Refused):
        with_states(verified, CUT, IDS, TRUNCATED, control)


def test_a_group_that_saves_nothing_is_promised_nothing_and_replays_what_is_there() -> None:
    cut = with_states(TAKE, CUT, IDS, TRUNCATED, noted(saved(5, 99, None)))
    assert cut == CUT
    assert promised_states(TAKE, cut, IDS, Control()) == {1: {}}


NOTHING = dict.fromkeys(HELD)


def test_what_was_its_own_is_set_again_and_what_somebody_has_changed_is_theirs() -> None:
    before = {**NOTHING, "retention.ms": "1000"}
    others = ["retention.bytes", "min.compaction.lag.ms", "max.compaction.lag.ms"]
    assert put_back(before, HELD) == ({"retention.ms": "1000"}, others)
    now = {**HELD, "retention.ms": "5", "cleanup.policy": "compact"}
    assert put_back(before, now) == ({}, others)
    assert put_back(before, {"retention.ms": "1000"}) == ({}, []), "it was put back already"


HELD_TOPIC = UUID(int=7)


def test_a_copy_that_is_made_during_a_hold_notes_the_settings_before_it() -> None:
    before = {**NOTHING, "retention.ms": "1000"}
    hold = RetentionHold(HELD_TOPIC.hex, "request", "orders", before)
    known = Control(held={(HELD_TOPIC.hex, "request"): hold})
    own = {**HELD, "cleanup.policy": "compact"}
    expected = {"cleanup.policy": "compact", "retention.ms": "1000"}
    assert without_hold(HELD_TOPIC, own, known) == expected
    assert without_hold(HELD_TOPIC, dict(HELD), Control()) == HELD


@pytest.mark.parametrize("value", [b"", b"\0\1", b"\0\1\x02\x7f"], ids=str)
def test_a_damaged_record_of_a_coordinator_is_named_and_one_that_removes_an_id_is_none(
    value: bytes,
) -> None:
    removing = Record(5, TimestampType.CREATE, 0, b"\0\0\0\1w", None, ())
    assert transaction_state(removing) is None
    with pytest.raises(MalformedMessage, match="offset 5"):
        transaction_state(removing._replace(value=value))


def test_a_window_has_the_offsets_from_the_floors_to_the_ends_of_the_checkpoint() -> None:
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    floors = TransactionFloors({"__consumer_offsets": {7: 1}}, {}, {1: 10, 2: 5})
    window = TransactionWindow(floors, {first: 30, second: 5})
    assert window.offsets({first: 1, second: 2}) == 20
