"""`backup run --continuous` through every fault: each record is there once, and its lag is told."""

import uuid
from pathlib import Path

from breakglass.services.backup_watch.location import read_jobs
from breakglass.services.clock import now_ms
from breakglass.services.topic_backup.address import partition_of
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.store.form import has_manifest
from breakglass.services.topic_backup.verification import verify_files
from tests.kit.faults import (
    BACKUP,
    Fault,
    Lab,
    Report,
    Writer,
    damage,
    on_followed_lab,
    under_faults,
)
from tests.kit.running import running
from tests.kit.waiting import wait_until
from tests.unit.metastore.generating import Generator

PART = 15


def backed_up(folder: Path) -> list[tuple[bytes | None, bytes | None]]:
    """The records that were committed, in their order."""
    if not (folder.is_dir() and has_manifest(LocalFolder(folder).names())):
        return []
    return [(record.key, record.value) for record in partition_of(str(folder / "0")).records()]


@on_followed_lab
@under_faults(BACKUP)
def test_a_continuous_backup_goes_on_through(
    fault: Fault, report: Report, followed_lab: Lab, disk: Path, tmp_path: Path
) -> None:
    topic, place, state = f"orders-{uuid.uuid4().hex[:8]}", disk / "backup", tmp_path / "state"
    followed_lab.create(topic)
    writer, every = Writer(followed_lab, topic), Generator(4).records(PART * 5)
    written = every[:PART]
    writer.write(written)
    given = ("--store", str(place), "--topics", topic, "--every", "2s", "--master", "local[1]")
    where = ("--bootstrap-server", followed_lab.cluster.bootstrap_servers)
    with running(state, "backup", "run", "--continuous", *given, *where) as backup:

        def copied() -> bool:
            assert not backup.ended, backup.said
            return backed_up(place / topic) == [(record.key, record.value) for record in written]

        def behind() -> bool:
            return any("the backup is behind since" in text for text in backup.said)

        def behind_in_status() -> bool:
            return any(job.job.behind for job in read_jobs(now_ms(), state / "breakglass"))

        def during() -> None:
            written.extend(every[len(written) : len(written) + PART])
            writer.write(written[-PART:])
            if report is Report.BEHIND:
                # It may have caught up by the time that both are looked at once more.
                reports = {behind: False, behind_in_status: False}

                def both() -> bool:
                    for read, seen in reports.items():
                        reports[read] = seen or read()
                    return all(reports.values())

                wait_until(both, "that it is behind", instead=lambda: backup.said)
            elif fault is not Fault.EACH_BROKER:
                wait_until(copied, "the records", instead=lambda: backup.said)

        wait_until(copied, "the first records", instead=lambda: backup.said)
        damage(fault, followed_lab, topic, disk, during)
        written.extend(every[len(written) : len(written) + PART])
        writer.write(written[-PART:])
        wait_until(copied, "all records", instead=lambda: backup.said)
        if behind():
            wait_until(
                lambda: any("the backup caught up again" in text for text in backup.said),
                "that it has caught up",
                instead=lambda: backup.said,
            )
    assert verify_files(LocalFolder(place / topic)).whole
