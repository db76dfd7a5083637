"""`ksql backup --follow` through every fault: no line is lost, doubled or of another log."""

import shutil
import uuid
from pathlib import Path

import pytest

from breakglass.services.lab.topics import elect_unclean
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.settings import command_topic
from breakglass.services.model import TopicPartition
from tests.kit.faults import (
    METASTORE,
    Fault,
    Lab,
    Report,
    Writer,
    damage,
    on_followed_lab,
    under_faults,
)
from tests.kit.waiting import wait_until
from tests.lab.ksql.commands import Follower, following
from tests.unit.metastore.generating import Generator
from tests.unit.metastore.test_live_backup import content

PART = 15


@pytest.fixture
def service() -> str:
    return f"test_{uuid.uuid4().hex[:8]}_"


def records(count: int) -> list[CommandRecord]:
    return Generator(21).records(count)


def words(service: str, folder: Path) -> tuple[str, ...]:
    return ("backup", "--service-id", service, "--store", str(folder))


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.bak"))


def told(follower: Follower, kind: str) -> int:
    """How often that kind of event came."""
    return sum(one.get("event") == kind for one in follower.told)


def wait_for(folder: Path, wanted: list[CommandRecord], follower: Follower) -> None:
    """Wait until the only backup there holds just *wanted*."""

    def held() -> bool:
        assert not follower.ended, follower.said
        return [file.read_bytes() for file in files(folder)] == [content(wanted)]

    wait_until(held, f"{len(wanted)} commands in the backup", instead=lambda: follower.told)


def elected(lab: Lab, topic: str, broker: int) -> bool:
    """Whether *broker* leads after an unclean election, which is asked for until it does."""
    elect_unclean(lab.cluster, TopicPartition(topic, 0))
    return lab.cluster.partition(topic, 0).leader == broker


@on_followed_lab
@under_faults(METASTORE)
def test_a_metastore_backup_goes_on_through(
    fault: Fault, report: Report, followed_lab: Lab, disk: Path, service: str
) -> None:
    topic, folder = command_topic(service), disk / "backups"
    followed_lab.create(topic)
    writer = Writer(followed_lab, topic)
    every = records(PART * 5)
    written = every[:PART]
    writer.write(written)
    with following(followed_lab.cluster, *words(service, folder)) as follower:
        wait_for(folder, written, follower)
        follower.event(event="caught up")
        heard = told(follower, "behind")

        def during() -> None:
            nonlocal heard
            some = every[len(written) : len(written) + PART]
            writer.write(some)
            written.extend(some)
            if report is Report.BEHIND:
                # It may have been said before the fault was done, as when a leader moves.
                wait_until(lambda: told(follower, "behind") > heard or _held(), "a word of it")
                heard = told(follower, "behind")

        def _held() -> bool:
            return fault is Fault.EACH_BROKER and files(folder)[0].read_bytes() == content(written)

        damage(fault, followed_lab, topic, disk, during)
        last = every[len(written) : len(written) + PART]
        writer.write(last)
        written += last
        wait_for(folder, written, follower)
        wait_until(
            lambda: told(follower, "behind") == told(follower, "caught up again"),
            "that it has caught up",
            instead=lambda: follower.told,
        )
        if report is Report.BEHIND:
            behind = follower.event(event="behind")
            assert behind["since"].endswith("Z")
            assert behind["reason"]
        follower.stop()
    assert follower.process.returncode in (0, 1)
    assert [file.read_bytes() for file in files(folder)] == [content(written)]


@on_followed_lab
def test_a_folder_that_is_gone_ends_the_backup_with_a_sentence(
    followed_lab: Lab, tmp_path: Path, service: str
) -> None:
    """Space is waited for; whatever else keeps a file from being written is the operator's."""
    topic, folder = command_topic(service), tmp_path / "backups"
    followed_lab.create(topic)
    writer, every = Writer(followed_lab, topic), records(PART * 2)
    writer.write(every[:PART])
    with following(followed_lab.cluster, *words(service, folder)) as follower:
        wait_for(folder, every[:PART], follower)
        shutil.rmtree(folder)
        writer.write(every[PART:])
        assert follower.wait() == 1


@on_followed_lab
def test_a_log_that_an_election_cut_back_is_told_and_gets_a_file_of_its_own(
    followed_lab: Lab, tmp_path: Path, service: str
) -> None:
    """Nothing of the rewritten log is appended to what was read before the cut."""
    topic, folder = command_topic(service), tmp_path / "backups"
    followed_lab.create(topic, 1, 2)
    writer = Writer(followed_lab, topic)
    every = records(PART * 3)
    writer.write(every[:PART])
    with following(followed_lab.cluster, *words(service, folder)) as follower:
        wait_for(folder, every[:PART], follower)
        followed_lab.cluster.broker(2).kill()
        followed_lab.cluster.wait_until(
            lambda: followed_lab.cluster.partition(topic, 0).isr == (1,), "b2 to leave the ISR"
        )
        writer.write(every[PART : PART * 2])
        wait_for(folder, every[: PART * 2], follower)
        followed_lab.cluster.broker(1).kill()
        followed_lab.cluster.broker(2).start()
        followed_lab.cluster.wait_unfenced(2)
        followed_lab.cluster.wait_until(
            lambda: elected(followed_lab, topic, 2), "the unclean election"
        )
        follower.event(danger="log cut")
        Writer(followed_lab, topic).write(every[PART * 2 :])
        wait_until(lambda: len(files(folder)) == 2, "a file of the log that was cut")
        before, after = files(folder)
        wanted = content(every[:PART] + every[PART * 2 :])
        wait_until(lambda: after.read_bytes() == wanted, "the rewritten log in its own file")
        assert before.read_bytes() == content(every[: PART * 2])
        assert follower.stop()["alarms"] >= 1
