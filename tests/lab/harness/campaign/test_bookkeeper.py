"""The bookkeeper on segments that real brokers wrote, against what its producers were promised."""

import pytest

from breakglass.bookkeeping.folders import DiskReading, Name, read_disks
from breakglass.bookkeeping.log_files import digest
from breakglass.bookkeeping.producer import Book
from breakglass.bookkeeping.settings import changes, read_cluster
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic

BROKERS = (1, 2, 3)
RECORDS = 40


def disks(cluster: Cluster) -> DiskReading:
    return read_disks({node.id: node.layout.log_dirs for node in cluster.brokers}, BROKERS)


def wait_on_disk(cluster: Cluster, name: Name, end: int) -> DiskReading:
    """What the disks hold once every replica ends there."""
    found = [disks(cluster)]

    def alike() -> bool:
        found[0] = disks(cluster)
        return {log.end for log in found[0].held(name).values()} == {end}

    cluster.wait_until(alike, f"every replica of {name} to end at {end}")
    return found[0]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_acknowledged_record_is_read_from_every_replica(
    three_brokers: Cluster, compression: str
) -> None:
    name = (f"booked-{compression}", 0)
    create_topic(three_brokers, name[0], [BROKERS])
    book = Book(three_brokers.lab_bootstrap)
    book.write([name], RECORDS, compression=compression)
    book.write([name], RECORDS, compression=compression, acks="1")
    assert (len(book.acked), book.failed) == (2 * RECORDS, 0)
    read = wait_on_disk(three_brokers, name, 2 * RECORDS)
    promised = sorted(
        (record.offset, record.key, digest(record.key, record.value)) for record in book.acked
    )
    assert read.readable_logs(name).keys() == set(BROKERS)
    for log in read.held(name).values():
        assert [(held.offset, held.key, held.digest) for held in log.records] == promised
        assert log.epochs == ((0, 0),)
    assert book.ever_ended_at(name) == 2 * RECORDS


def test_ends_of_transactions_are_read_from_their_markers(three_brokers: Cluster) -> None:
    name = ("booked-transactions", 0)
    create_topic(three_brokers, name[0], [BROKERS])
    book = Book(three_brokers.lab_bootstrap)
    assert book.transact([name], 5, "commit")
    assert book.transact([name], 5, "abort")
    assert book.transact([name], 5, "open")
    read = wait_on_disk(three_brokers, name, 17)
    for log in read.held(name).values():
        assert len(log.records) == 15
        assert len(log.places) == 17
        assert log.undecided == {6, 7, 8, 9, 10, 12, 13, 14, 15, 16}


def test_a_committed_offset_is_booked(three_brokers: Cluster) -> None:
    name = ("booked-groups", 0)
    create_topic(three_brokers, name[0], [BROKERS])
    book = Book(three_brokers.lab_bootstrap)
    book.write([name], 3)
    three_brokers.wait_until(
        lambda: book.commit("booked-readers", {name: 3}, {name: 0}), "the group's coordinator"
    )
    assert book.committed("booked-readers") == {name: 3}


def test_settings_and_orders_are_read_as_they_were_made(three_brokers: Cluster) -> None:
    name = ("booked-settings", 0)
    create_topic(three_brokers, name[0], [(2, 3, 1)], {"min.insync.replicas": "2"})
    read = read_cluster(three_brokers.lab_bootstrap)
    assert read.orders[name] == (2, 3, 1)
    assert read.leaders[name] == 2
    assert read.configs["topic booked-settings"] == {"min.insync.replicas": "2"}
    assert {"broker 1", "broker 2", "broker 3"} <= read.configs.keys()
    assert changes(read, read) == []
