"""Retention and compaction beside a checkpoint: refused, or held back until it is copied (H10)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.checkpoint.kafka.holding import HELD, RetentionHolder
from breakglass.services.checkpoint.kafka.log_ends import read_logs
from breakglass.services.checkpoint.participant.application import Guarantee
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.checkpoint.wording import promise
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.errors import Refused
from breakglass.services.kafka.cluster.topic_settings import read_topic_configs
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.session import Power, ReadAccess
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import MANIFEST
from breakglass.services.topic_backup.manifest import read_manifest
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.branch import SECONDS, Branch
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.taking import Taking

pytestmark = pytest.mark.slow

COMPACTED = {"cleanup.policy": "compact"}
OFTEN = {"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "200"}


@pytest.fixture
def bank(broker: Cluster, tmp_path: Path) -> Branch:
    """Three accounts with nothing under way; nobody is at work."""
    name = f"kept-{tmp_path.name.replace('_', '-')[-60:]}"
    made = Branch(broker, name, Guarantee.EXACTLY_ONCE, 3, f"control-{name}").open()
    made.order(20, hops=3)
    made.settle()
    return made


def soon() -> Deadline:
    return Deadline.after(SECONDS)


def set_up(power: Power, client: ReadClient, topic: str, settings: dict[str, str]) -> None:
    """Give *topic* the *settings*, and wait until brokers have them."""
    with power.topics(client.describe(soon()).cluster_id) as topics:
        topics.configure(topic, settings, (), soon())
    wait_until(lambda: settings.items() <= own(client, topic).items(), "the settings")


def own(client: ReadClient, topic: str) -> dict[str, str]:
    """The settings that *topic* has of its own."""
    found = read_topic_configs(client.sender, [topic], soon())[topic]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("level", [Level.COORDINATED, Level.VERIFIED])
def test_h10_a_compacted_topic_is_refused(
    bank: Branch, taking: Taking, power: Power, client: ReadClient, level: Level
) -> None:
    set_up(power, client, bank.topic, COMPACTED)
    with pytest.raises(Refused, match=r"unverifiable: topic \S+ is compacted"):
        taking.take(bank, level)
    found = taking.store.read(1)
    assert found is not None
    assert found.status is Status.FAILED
    assert found.failed is not None
    assert "is compacted" in found.failed.reason


def test_h10_a_vector_of_a_compacted_topic_is_labelled(
    bank: Branch, taking: Taking, power: Power, client: ReadClient
) -> None:
    set_up(power, client, bank.topic, COMPACTED)
    found = taking.take(bank, Level.VECTOR)
    assert found.status is Status.COMPLETED
    assert "unverifiable" in promise(found)


def of_bank(bank: Branch) -> tuple[str, ...]:
    group = f"{bank.group}=exactly-once"
    phrase = f"write {bank.partitions} markers and hold retention of {bank.topic}"
    scope = ("--topics", bank.topic, "--group", group, "--control-topic", bank.control)
    return (*scope, "--write", "--consent", phrase)


def test_h10_held_back_a_compacted_topic_is_taken_and_has_its_settings_again(
    bank: Branch, program: Program, power: Power, client: ReadClient
) -> None:
    settings = {**COMPACTED, "retention.bytes": "5000000", "max.compaction.lag.ms": "60000"}
    set_up(power, client, bank.topic, settings)
    taken = program("take", *of_bank(bank), "--hold-retention")
    assert taken.code == 0, taken.err
    assert f"retention is suspended: {bank.topic}" in taken.err
    assert f"topic {bank.topic} has its own retention again" in taken.err
    wait_until(lambda: own(client, bank.topic) == settings, "its own settings")
    copies = (read_manifest(LocalFolder(path.parent)) for path in program.store.rglob(MANIFEST))
    noted = [copy.identity.config for copy in copies if copy is not None]
    assert noted, "each copy notes the settings that a restored topic gets"
    assert all(config == settings for config in noted), noted


def test_h10_what_a_killed_take_has_held_back_is_let_go_by_finish(
    bank: Branch, program: Program, client: ReadClient
) -> None:
    bank.order(3)
    with program.running("take", *of_bank(bank), "--hold-retention") as take:
        take.wait_for("checkpoint 1 is acknowledged")
        assert HELD.items() <= own(client, bank.topic).items()
        take.kill()
    assert HELD.items() <= own(client, bank.topic).items()
    control = ("--control-topic", bank.control)
    ended = program("finish", "1", *control, "--drain", "1", "--write")
    assert "not drained in time" in ended.err
    assert f"topic {bank.topic} has its own retention again" in ended.err
    wait_until(lambda: not own(client, bank.topic), "its own settings, which are none")


def test_two_holders_keep_a_topic_held_until_both_have_let_it_go(
    bank: Branch, power: Power, client: ReadClient
) -> None:
    with power.markers(client.describe(soon()).cluster_id, holding=True) as markers:
        first, second = (
            RetentionHolder(client, markers, bank.control, text) for text in ("a", "b")
        )
        first.hold([bank.topic])
        second.hold([bank.topic])
        assert first.release() == ()
        assert HELD.items() <= own(client, bank.topic).items()
        assert second.release() == (bank.topic,)
        assert second.release() == ()
    wait_until(lambda: not own(client, bank.topic), "its own settings, which are none")


@pytest.fixture
def sweeping(tmp_path: Path) -> Iterator[Cluster]:
    """A broker that looks for what may go five times a second."""
    with Cluster.up(tmp_path / "lab", brokers=1, overrides=OFTEN, tethered=True) as cluster:
        yield cluster


@pytest.mark.timeout(300)
def test_i10_while_it_is_held_retention_removes_nothing_and_afterwards_it_does(
    sweeping: Cluster, tmp_path: Path
) -> None:
    options = ConnectionOptions(bootstrap_server=sweeping.bootstrap_servers)
    access = ReadAccess(connection_settings(options))
    held, other = (
        Branch(sweeping, name, Guarantee.EXACTLY_ONCE, 3, "control").open()
        for name in ("held", "other")
    )
    with access.reading() as client:
        power = Power(access)
        for branch in (held, other):
            set_up(power, client, branch.topic, {"segment.ms": "100", "retention.ms": "100"})
        with power.markers(client.describe(soon()).cluster_id, holding=True) as markers:
            holder = RetentionHolder(client, markers, "control", "a")
            holder.hold([held.topic])
            before = starts(client, held)
            sweep(client, other, held)
            assert starts(client, held) == before
            holder.release()
        sweep(client, held)


def sweep(client: ReadClient, bank: Branch, *others: Branch) -> None:
    """Write into all of them, and wait until the broker has removed what *bank* got."""
    begun = starts(client, bank)
    for other in (bank, *others):
        other.order(3)
        other.order(3)
    wait_until(
        lambda: all(at > begun[number] for number, at in starts(client, bank).items()),
        f"{bank.topic} to be swept",
    )


def starts(client: ReadClient, bank: Branch) -> dict[int, int]:
    found = read_logs(client, (bank.topic,), soon()).starts(soon())
    return {one.partition: start for one, start in found.items()}
