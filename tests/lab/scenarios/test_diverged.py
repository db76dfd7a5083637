"""What the scenarios leave on disk: diverged, compacted and replaced logs (R1, R2); the screen of
two replicas on real brokers.
"""

import re

import pytest

from breakglass.console import app
from breakglass.console.wiring import Connection
from breakglass.screens.messages import DiffAsked
from breakglass.services.connection.sources import ConnectionOptions
from breakglass.services.incident.incident import Incident
from breakglass.services.lab.distribution import run_tool
from breakglass.services.lab.segments import read_log
from breakglass.services.lab.topics import elect_unclean
from breakglass.services.lab.truth import CountedLoss
from breakglass.services.model import EpochRange, Role, TopicPartition
from breakglass.services.recovery.triage import Triage
from tests.lab.asking import consume
from tests.lab.recover.session import judged, reading
from tests.lab.scenarios.damaged import Damaged, ends_on_disk, ends_told, lab_after
from tests.screens.consoles import console_on
from tests.screens.turns import text, until

LEDGER = TopicPartition("ledger", 0)
DUMP = {"4.3.1": "org.apache.kafka.tools.DumpLogSegments", "3.9.2": "kafka.tools.DumpLogSegments"}
DUMPED = re.compile(r"baseOffset: (\d+) lastOffset: (\d+) .*?partitionLeaderEpoch: (\d+)")


def test_two_stale_replicas_part_at_100_and_the_longer_took_alone_what_was_never_committed(
    three_losses: Damaged,
) -> None:
    state, truth = three_losses.state(LEDGER), three_losses.truth_of(LEDGER)
    assert (state.leader, state.leader_epoch, state.assignment) == (None, 4, (2, 1, 3))
    assert [state.role(broker) for broker in (1, 2)] == [Role.STALE, Role.STALE]
    assert state.role(3) in (Role.ISR, Role.ELR)
    common = EpochRange(0, 0, 100)
    assert truth.replica(2).epochs == (common, EpochRange(1, 100, 150))
    assert truth.replica(1).epochs == (common, EpochRange(2, 100, 125))
    assert ends_told(three_losses)[LEDGER] == {1: 125, 2: 150}
    assert truth.choice(1) == CountedLoss(1, committed=0, uncommitted=50, unread=0, acked=50)
    assert truth.choice(2) == CountedLoss(2, committed=25, uncommitted=0, unread=0, acked=25)


def test_kafka_reads_the_same_epochs_from_the_segments(three_losses: Damaged) -> None:
    cluster = three_losses.cluster
    for broker in (1, 2, 3):
        folder = cluster.broker(broker).partition_folder("ledger", 0)
        assert folder is not None
        (segment,) = folder.glob("*.log")
        tool = DUMP[cluster.layout.kafka_version]
        dump = run_tool(cluster.kafka, tool, ["--files", str(segment)]).check()
        batches = [tuple(map(int, found)) for found in DUMPED.findall(dump.stdout)]
        identities = {
            (epoch, offset) for first, last, epoch in batches for offset in range(first, last + 1)
        }
        replica = three_losses.truth_of(LEDGER).replica(broker)
        assert len(identities) == replica.records
        assert identities == {
            (held.epoch, offset)
            for held in replica.epochs
            for offset in range(held.start, held.end)
        }


PROFILES = TopicPartition("profiles", 0)


lab = lab_after("compacted")


def offsets(lab: Damaged, broker: int) -> set[int]:
    """Offsets that hold a record on a broker's disk."""
    folder = lab.cluster.broker(broker).partition_folder("profiles", 0)
    return {offset for _, offset in read_log(folder).identities}


def test_the_replicas_have_different_holes(lab: Damaged) -> None:
    assert lab.state(PROFILES).offline
    assert ends_told(lab) == ends_on_disk(lab) == {PROFILES: {1: 135, 2: 100}}
    assert offsets(lab, 2) == set(range(100))
    assert offsets(lab, 1) == {*range(25), *range(75, 135)}


def test_electing_the_longer_one_loses_no_key_and_no_newer_value(lab: Damaged) -> None:
    assert [choice.committed for choice in lab.truth_of(PROFILES).choices] == [0, 35]
    elect_unclean(lab.cluster, PROFILES)
    lab.cluster.wait_partition("profiles", 0, lambda state: state.leader == 1, "b1 to lead")
    newest = {key: offset for offset, key in sorted(consume(lab.cluster, PROFILES).items())}
    on_b2 = {
        key: offset
        for written in lab.truth_of(PROFILES).written
        for offset, key in enumerate(written.keys, start=written.start)
        if offset < 100
    }
    assert set(on_b2) == {f"user-{number}" for number in range(75)}
    assert all(newest[key] >= offset for key, offset in on_b2.items())


CARTS = [TopicPartition("carts", number) for number in range(3)]


def test_r02_the_last_leader_is_back_empty_and_next_in_line(three_losses: Damaged) -> None:
    # A busy machine may have kept b4 from its heartbeats.
    three_losses.cluster.wait_unfenced(4)
    told = ends_told(three_losses)
    assert told == ends_on_disk(three_losses)
    for partition in CARTS:
        state, truth = three_losses.state(partition), three_losses.truth_of(partition)
        assert (state.leader, state.offline_replicas) == (None, ())
        assert state.role(4) in (Role.ISR, Role.LAST_KNOWN_ELR)
        assert [state.role(broker) for broker in (1, 2)] == [Role.STALE, Role.STALE]
        assert told[partition] == {4: 0, 1: 125, 2: 100}
        assert truth.replica(4).disk == "replaced"
        assert (truth.choice(4).committed, truth.choice(4).acked) == (125, 150)
        assert truth.choice(1).acked == 25


@pytest.fixture(scope="module")
def found(three_losses: Damaged) -> Triage:
    with reading(three_losses.cluster) as client:
        return judged(client)


async def test_the_screen_shows_the_divergence_of_real_brokers(
    three_losses: Damaged, found: Triage, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = dict.fromkeys(app.MODES, "tests.screens.bare_page:BarePage")
    monkeypatch.setattr(app, "MODES", places)
    access = Connection(ConnectionOptions(three_losses.cluster.bootstrap_servers)).access()
    console = console_on(Incident.of(found), access=access)
    async with console.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: not console.context.known.reading, "what is known")
        console.post_message(DiffAsked(LEDGER))
        await until(
            pilot,
            lambda: (
                "Then ! 25 offsets hold different records, < 0 only on b1, > 25 only on b2."
                in text(console)
            ),
            "the totals",
        )
        assert "── diverge at 100: b1 in epoch 2, b2 in epoch 1 ──" in text(console)
        await pilot.press("n")
        await until(pilot, lambda: "offset 125: only on b2" in text(console), "the next difference")
        await pilot.press("enter")
        await until(pilot, lambda: "no record at this offset" in text(console), "the record")
