"""Retention and compaction beside a checkpoint: refused, or held back until it is copied (H10)."""

import pytest

from breakglass.services.checkpoint.kafka.holding import HELD, RetentionHolder
from breakglass.services.checkpoint.kafka.logs import read_logs
from breakglass.services.checkpoint.participant.participant import Guarantee
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.errors import Refused
from breakglass.services.kafka.cluster.settings import read_topic_configs
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.session import Power
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import MANIFEST
from breakglass.services.topic_backup.manifest import read_manifest
from tests.kit.clusters import access_to
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.branch import Branch, soon
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.taking import Taking, why_failed
from tests.lab.conftest import FreshCluster

COMPACTED = {"cleanup.policy": "compact"}
OFTEN = {"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "200"}


def holding(bank: Branch) -> tuple[str, ...]:
    """What a take of *bank* is told, and the consent to hold its retention."""
    phrase = f"write {bank.partitions} markers and hold retention of {bank.topic}"
    return (*bank.options(serving=True), "--consent", phrase, "--hold-retention")


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
    settled_bank: Branch, taking: Taking, power: Power, client: ReadClient, level: Level
) -> None:
    set_up(power, client, settled_bank.topic, COMPACTED)
    with pytest.raises(Refused, match="is compacted"):
        taking.take(settled_bank, level)
    assert "is compacted" in why_failed(taking.store)


def test_h10_held_back_a_compacted_topic_is_taken_and_has_its_settings_again(
    settled_bank: Branch, program: Program, power: Power, client: ReadClient
) -> None:
    settings = {**COMPACTED, "retention.bytes": "5000000", "max.compaction.lag.ms": "60000"}
    set_up(power, client, settled_bank.topic, settings)
    program.whole("take", *holding(settled_bank))
    wait_until(lambda: own(client, settled_bank.topic) == settings, "its own settings")
    copies = (read_manifest(LocalFolder(path.parent)) for path in program.store.rglob(MANIFEST))
    noted = [copy.identity.config for copy in copies if copy is not None]
    assert noted, "each copy notes the settings that a restored topic gets"
    assert all(config == settings for config in noted), noted


def test_h10_what_a_killed_take_has_held_back_is_let_go_by_finish(
    settled_bank: Branch, program: Program, client: ReadClient
) -> None:
    settled_bank.order(3)
    with program.running("take", *holding(settled_bank)) as take:
        take.wait_for("checkpoint 1 is acknowledged")
        assert HELD.items() <= own(client, settled_bank.topic).items()
        take.kill()
    assert HELD.items() <= own(client, settled_bank.topic).items()
    control = ("--control-topic", settled_bank.control)
    assert program.here("finish", "1", *control, "--drain", "1", "--write").code == 1
    wait_until(lambda: not own(client, settled_bank.topic), "its own settings, which are none")


def test_two_holders_keep_a_topic_held_until_both_have_let_it_go(
    settled_bank: Branch, power: Power, client: ReadClient
) -> None:
    with power.markers(client.describe(soon()).cluster_id, holding=True) as markers:
        first, second = (
            RetentionHolder(client, markers, settled_bank.control, text) for text in ("a", "b")
        )
        first.hold([settled_bank.topic])
        second.hold([settled_bank.topic])
        assert first.release() == ()
        assert HELD.items() <= own(client, settled_bank.topic).items()
        assert second.release() == (settled_bank.topic,)
        assert second.release() == ()
    wait_until(lambda: not own(client, settled_bank.topic), "its own settings, which are none")


def test_i10_while_it_is_held_retention_removes_nothing_and_afterwards_it_does(
    fresh_cluster: FreshCluster,
) -> None:
    sweeping = fresh_cluster(brokers=1, overrides=OFTEN)
    access = access_to(sweeping)
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
