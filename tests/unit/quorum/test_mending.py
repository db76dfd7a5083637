"""What data folders prove against a copy: topics, partitions and ISRs that it does not know."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.model import TopicPartition
from breakglass.services.quorum.data_folders import FoundReplica, Mending, mend
from breakglass.services.quorum.image import Key, PartitionMetadata
from breakglass.services.quorum.metadata_copy import LogPosition, read_copy
from tests.kit.metadata_log import record
from tests.unit.quorum.clusters import LEDGER, ORDERS, small_log


def on(
    broker: int,
    end: int,
    written: int = 0,
    *,
    epoch: int | None = None,
    number: int = 0,
    topic: tuple[str, UUID] = ("orders", ORDERS),
) -> FoundReplica:
    """A replica whose last record has the epoch *written*."""
    partition = TopicPartition(topic[0], number)
    path = Path(f"/disks/{broker}/{partition}")
    noted = written if epoch is None else epoch
    return FoundReplica(broker, path, partition, topic[1], LogPosition(written, end), noted)


def known(*isr: int, epoch: int = 0, replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionMetadata:
    return PartitionMetadata(replicas, isr, isr[0] if isr else -1, epoch, 7)


def mended(
    *found: FoundReplica,
    state: PartitionMetadata | None = None,
    whole: tuple[int, ...] = (),
    name: UUID = ORDERS,
) -> Mending:
    values: dict[Key, object] = {("topic", name): "orders"}
    if state is not None:
        values["partition", ORDERS, 0] = state
    directories = {Path(f"/disks/{broker}"): UUID(int=broker) for broker in (1, 2, 3, 4)}
    return mend(values, found, whole, directories)


def isr_of(mending: Mending) -> tuple[int, ...] | None:
    """The ISR that is appended; None: nothing is."""
    return mending.partitions[0].after.isr if mending.partitions else None


def test_q11_logs_that_agree_with_the_copy_need_nothing() -> None:
    assert mended(on(1, 10), on(2, 10), on(3, 10), state=known(1, 2, 3)) == Mending()
    # A replica that had left the ISR may end earlier.
    assert mended(on(1, 10), on(2, 10), on(3, 5), state=known(1, 2)) == Mending()


def test_q11_the_replicas_with_the_longest_log_are_the_new_isr() -> None:
    found = mended(on(1, 10), on(2, 40), on(3, 40), state=known(1, 2, 3))
    (one,) = found.partitions
    assert (one.after.replicas, one.after.isr, one.after.leader) == ((1, 2, 3), (2, 3), 2)
    assert one.after.leader_epoch > 0
    assert one.after.partition_epoch > 7
    assert one.directories == (UUID(int=1), UUID(int=2), UUID(int=3))


def test_q11_a_later_leader_epoch_ranks_before_a_longer_log() -> None:
    assert isr_of(mended(on(1, 40), on(2, 30, 5), state=known(1, 2))) == (2,)


def test_q11_the_new_leader_epoch_is_above_those_of_every_log() -> None:
    (one,) = mended(on(1, 10, epoch=9), on(2, 10), state=known(1, 2, epoch=4)).partitions
    assert one.after.leader_epoch > 9


def test_q11_a_tail_outside_the_isr_that_the_copy_knows_does_not_lead() -> None:
    # Leader 1 died with records that the others did not have; 2 leads at an epoch the copy knows.
    found = mended(on(1, 50, 4), on(2, 40, 4, epoch=5), on(3, 40, 4), state=known(2, 3, epoch=5))
    assert found.partitions == ()


def test_q11_a_log_outside_the_isr_leads_if_the_copy_is_older_than_it() -> None:
    assert isr_of(mended(on(1, 40, 6), on(2, 30), state=known(2, epoch=0))) == (1,)


def test_q11_a_member_without_its_folder_is_empty_if_its_whole_disk_was_read() -> None:
    assert isr_of(mended(on(2, 40), state=known(1, 2), whole=(1,))) == (2,)
    assert isr_of(mended(on(2, 40), state=known(1, 2))) is None
    # The last member came back without its log: it would lead, and the others would follow.
    assert isr_of(mended(on(2, 40), state=known(1), whole=(1,))) == (2,)
    assert isr_of(mended(on(2, 40), state=known(1))) is None


def test_q11_a_topic_that_the_copy_does_not_know_is_made_with_its_own_id() -> None:
    ledger = ("ledger", LEDGER)
    found = mended(on(3, 5, topic=ledger), on(1, 9, topic=ledger), on(1, 2, topic=ledger, number=1))
    assert found.topics == (("ledger", LEDGER),)
    assert [
        (str(one.partition), one.after.replicas, one.after.isr) for one in found.partitions
    ] == [
        ("ledger-0", (1, 3), (1,)),
        ("ledger-1", (1,), (1,)),
    ]


def test_q11_a_partition_of_a_known_topic_is_added_after_the_one_before_it() -> None:
    found = mended(on(1, 4, number=1), on(1, 4, number=3), state=known(1))
    assert [str(one.partition) for one in found.partitions] == ["orders-1"]
    assert found.topics == ()
    assert [line.partition(":")[0] for line in found.left] == ["orders-3"]


def test_q11_a_topic_whose_deletion_a_copy_shows_is_not_made(tmp_path: Path) -> None:
    log = small_log()
    log.add(record("RemoveTopicRecord", topic_id=ORDERS))
    copy = read_copy(log.save(tmp_path, 101))
    assert copy.deleted == {ORDERS}
    found = mend({}, [on(1, 4)], (), {}, copy.deleted)
    assert (found.topics, found.partitions) == ((), ())
    assert found.left == ("orders-0: the topic was deleted",)


def test_q11_a_name_that_another_topic_has_is_not_taken() -> None:
    found = mended(on(1, 4), name=LEDGER)
    assert (found.topics, found.partitions) == ((), ())
    assert found.left == ("orders-0: the copy has another topic of this name",)


def test_q11_the_longest_log_leads_wherever_it_is_assigned() -> None:
    (one,) = mended(on(1, 4), on(4, 40, 8), state=known(1, 2)).partitions
    assert (one.after.replicas, one.after.isr) == ((1, 2, 3, 4), (4,))
    found = mended(on(1, 4), on(2, 4), on(4, 2), state=known(1, 2))
    assert found.partitions == ()
    assert [line.partition(":")[0] for line in found.left] == ["orders-0"]


positions = st.tuples(st.integers(0, 3), st.integers(1, 5)) | st.just((-1, 0))
ends = st.dictionaries(st.integers(1, 4), positions, min_size=1)


@given(logs=ends, isr=st.sets(st.integers(1, 3), min_size=1), epoch=st.integers(0, 4))
def test_q11_no_replica_of_the_new_isr_ends_before_one_that_might_have_led(
    logs: dict[int, tuple[int, int]], isr: set[int], epoch: int
) -> None:
    """Brute force: whoever is elected, no record of a replica that the copy trusts is lost."""
    found = [on(broker, end, written) for broker, (written, end) in logs.items()]
    mending = mended(*found, state=known(*sorted(isr), epoch=epoch))
    after = mending.partitions[0].after if mending.partitions else known(*isr, epoch=epoch)
    newest = max(written for written, _ in logs.values())
    trusted = set(logs) if newest > epoch else set(logs) & isr
    for member in set(after.isr) & set(logs):
        assert all(logs[member] >= logs[other] for other in trusted) or not any(
            end for _, end in (logs[other] for other in trusted)
        )
    assert after.leader_epoch >= newest
    assert after.leader_epoch > newest or not mending.partitions


@pytest.mark.parametrize("broker", [1, 2, 3])
def test_q11_one_log_alone_is_enough(broker: int) -> None:
    assert isr_of(mended(on(broker, 4, topic=("ledger", LEDGER)))) == (broker,)
