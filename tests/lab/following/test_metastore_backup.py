"""`metastore backup --follow` through every fault: no line is lost, doubled or of another log."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest

from breakglass.services.lab.topics import elect_unclean
from breakglass.services.metastore.records import CommandRecord
from breakglass.services.metastore.settings import command_topic
from breakglass.services.model import TopicPartition
from tests.kit.waiting import wait_until
from tests.lab.following.cells import METASTORE, Report, cells
from tests.lab.following.faults import Fault, damage
from tests.lab.following.lab import Lab, Writer
from tests.lab.metastore.commands import Follower, following
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
    return sum(one.get("event") == kind for _, one in follower.told)


def wait_for(folder: Path, wanted: list[CommandRecord], follower: Follower) -> None:
    """Wait until the only backup there holds just *wanted*."""

    def held() -> bool:
        assert follower.process.poll() is None, follower.process.communicate()
        return [file.read_bytes() for file in files(folder)] == [content(wanted)]

    wait_until(held, f"{len(wanted)} commands in the backup", 90, instead=lambda: follower.told)


def elected(lab: Lab, topic: str, broker: int) -> bool:
    """Whether *broker* leads after an unclean election, which is asked for until it does."""
    elect_unclean(lab.cluster, TopicPartition(topic, 0))
    return lab.cluster.partition(topic, 0).leader == broker


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("fault", "report"), cells(METASTORE))
def test_a_metastore_backup_goes_on_through(
    fault: Fault, report: Report, lab: Lab, disk: Path, service: str
) -> None:
    topic, folder = command_topic(service), disk / "backups"
    lab.create(topic)
    writer = Writer(lab, topic)
    every = records(PART * 5)
    written = every[:PART]
    writer.write(written)
    with following(lab.cluster, *words(service, folder)) as follower:
        wait_for(folder, written, follower)
        follower.event("caught up")
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

        damage(fault, lab, topic, disk, during)
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
            behind = follower.event("behind")
            assert behind["since"].endswith("Z")
            assert behind["reason"]
        follower.stop()
    assert follower.process.returncode in (0, 1)
    assert [file.read_bytes() for file in files(folder)] == [content(written)]


def test_a_folder_that_is_gone_ends_the_backup_with_a_sentence(
    lab: Lab, tmp_path: Path, service: str
) -> None:
    """Space is waited for; whatever else keeps a file from being written is the operator's."""
    topic, folder = command_topic(service), tmp_path / "backups"
    lab.create(topic)
    writer, every = Writer(lab, topic), records(PART * 2)
    writer.write(every[:PART])
    with following(lab.cluster, *words(service, folder)) as follower:
        wait_for(folder, every[:PART], follower)
        shutil.rmtree(folder)
        writer.write(every[PART:])
        assert follower.process.wait(60) == 1
        assert follower.process.stderr is not None
        assert "No such file or directory; check the path" in follower.process.stderr.read()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_log_that_an_election_cut_back_is_told_and_gets_a_file_of_its_own(
    lab: Lab, tmp_path: Path, service: str
) -> None:
    """Nothing of the rewritten log is appended to what was read before the cut."""
    topic, folder = command_topic(service), tmp_path / "backups"
    lab.create(topic, 1, 2)
    writer = Writer(lab, topic)
    every = records(PART * 3)
    writer.write(every[:PART])
    with following(lab.cluster, *words(service, folder)) as follower:
        wait_for(folder, every[:PART], follower)
        lab.cluster.broker(2).kill()
        lab.cluster.wait_until(
            lambda: lab.cluster.partition(topic, 0).isr == (1,), "b2 to leave the ISR"
        )
        writer.write(every[PART : PART * 2])
        wait_for(folder, every[: PART * 2], follower)
        lab.cluster.broker(1).kill()
        lab.cluster.broker(2).start()
        lab.cluster.wait_unfenced(2)
        lab.cluster.wait_until(lambda: elected(lab, topic, 2), "the unclean election")
        follower.alarm("log cut")
        Writer(lab, topic).write(every[PART * 2 :])
        wait_until(lambda: len(files(folder)) == 2, "a file of the log that was cut")
        before, after = files(folder)
        wanted = content(every[:PART] + every[PART * 2 :])
        wait_until(lambda: after.read_bytes() == wanted, "the rewritten log in its own file")
        assert before.read_bytes() == content(every[: PART * 2])
        assert follower.stop()["alarms"] >= 1
