"""Whether a dead broker may be started: what it would lose is told, rescued, and then is so.

b3 led last and is dead, with records of its own; b1 was elected. All is looked at before and after
the rescue, then b3 starts, and what its logs have lost by then is what was foretold.
"""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import produce
from breakglass.services.lab.scenarios.damage import (
    B1_LOST,
    B2_LOST,
    COURSE,
    LAST_LOST,
    QUICK_TO_FENCE,
)
from breakglass.services.lab.scenarios.scenario import (
    Scenario,
    Script,
    Shape,
    Stage,
)
from breakglass.services.lab.segments import DiskLog, read_log
from breakglass.services.lab.topics import elect_unclean
from breakglass.services.lab.truth import Expectation
from breakglass.services.model import TopicPartition
from tests.kit.clusters import access_to
from tests.kit.incidents import incident_of
from tests.kit.program import Ended, breakglass
from tests.lab.asking import delete_topic
from tests.lab.backup.producing import LOG
from tests.lab.recover.incident.beside import delete_records
from tests.lab.scenarios.damaged import Damaged, damaged
from tests.screens.consoles import console_on
from tests.screens.turns import text, until

SHARED, OWN, SINCE = 40, 7, 3
"""Records of both, of b3 alone, and those that b1 took since it was elected."""
CODECS = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
TAILS = tuple(f"tail-{codec}" for codec in CODECS)
KEPT, ALONE, DELETED, ERASED = "kept", "alone", "deleted", "erased"
MADE_SINCE = "made-since"
HALF_A_BATCH, SECONDS = 70, 120.0


def _script(stage: Stage) -> Script:
    for codec in CODECS:
        stage.create(f"tail-{codec}", [(3, 1)], {"compression.type": codec})
    for topic in (KEPT, DELETED, ERASED):
        stage.create(topic, [(3, 1)])
    stage.create(ALONE, [(3,)])
    tails = [TopicPartition(topic, 0) for topic in TAILS]
    others = [TopicPartition(topic, 0) for topic in (KEPT, DELETED, ALONE, ERASED)]
    stage.write([*tails, *others], SHARED)
    yield B2_LOST
    yield B1_LOST
    stage.write([*tails, TopicPartition(ERASED, 0)], OWN)
    yield LAST_LOST
    return list[Expectation]()


SCENARIO = Scenario(
    "to-return",
    __doc__ or "",
    _script,
    course=COURSE,
    shape=Shape(overrides=QUICK_TO_FENCE.overrides, log_dirs=2),
)


class Course(NamedTuple):
    """What was told and what was so, from the election to b3's return."""

    before: Ended
    one_directory: Ended
    made_since: Ended
    """A topic was made while b3 was down, and all of its log.dirs are said to be named."""
    rescued: Ended
    after: Ended
    running: Ended
    screens: dict[str, str]
    """What `R` of the console showed before the rescue, and after it."""
    disk: dict[str, DiskLog]
    """b3's logs before it was started."""
    returned: dict[str, DiskLog]
    """And once it followed."""
    untouched: bool
    """Looking and rescuing changed no file of b3's."""
    stray: bool


@pytest.fixture(scope="module", params=["4.3.1", "3.9.2"])
def course(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Course]:
    folder = tmp_path_factory.mktemp("to-return")
    with damaged(folder / "lab", beside=[SCENARIO], kafka_version=request.param) as lab:
        cluster = lab.cluster
        for topic in (*TAILS, KEPT, ERASED):
            elect_unclean(cluster, TopicPartition(topic, 0))
            cluster.wait_partition(topic, 0, lambda state: state.leader == 1, "b1 to lead")
        for topic in TAILS:
            produce(cluster, topic, 0, SINCE)
        produce(cluster, ERASED, 0, 2 * OWN)
        delete_records(cluster, TopicPartition(ERASED, 0), SHARED + OWN + 1)
        delete_topic(cluster, DELETED)
        tear(lab, TAILS[0])
        disk, files = logs(lab), everything(lab)
        state = folder / "state"
        to = state / "rescue"
        before = check(lab, "--rescued", to)
        one = check(lab, "--rescued", to, directories=1)
        screens = {"before": asyncio.run(on_screen(lab, state, "NOT safe to start"))}
        rescued = run(lab, "rescue", *from_logs(lab), "--to", to)
        after = check(lab, "--rescued", to)
        screens["after"] = asyncio.run(on_screen(lab, state, "b3 is safe to start"))
        untouched = everything(lab) == files
        make(cluster, MADE_SINCE, [[1, 3]])
        made_since = check(lab, "--rescued", to, "--all-log-dirs")
        cluster.broker(3).start()
        for topic in TAILS:
            cluster.wait_partition(topic, 0, lambda state: 3 in state.isr, "b3 to follow")
        running = check(lab, "--rescued", to, "--while-running")
        stray = any(list(root.glob("*-stray")) for root in directories(lab))
        yield Course(
            before,
            one,
            made_since,
            rescued,
            after,
            running,
            screens,
            disk,
            logs(lab),
            untouched,
            stray,
        )


def directories(lab: Damaged) -> list[Path]:
    return list(lab.cluster.broker(3).layout.log_dirs)


def from_logs(lab: Damaged, number: int | None = None) -> list[object]:
    return [
        word for directory in directories(lab)[:number] for word in ("--from", f"log:{directory}")
    ]


def run(lab: Damaged, *words: object) -> Ended:
    return breakglass(*words, "--bootstrap-server", lab.cluster.bootstrap_servers, "--json")


def check(lab: Damaged, *words: object, directories: int | None = None) -> Ended:
    return run(lab, "can-start", *from_logs(lab, directories), *words)


async def on_screen(lab: Damaged, state: Path, words: str) -> str:
    """What a read-only console shows when it is given b3's folders."""
    console = console_on(incident_of(), access=access_to(lab.cluster), state_folder=state)
    async with console.run_test(size=(120, 40)) as pilot:
        await pilot.press("R")
        await until(pilot, lambda: "Log folders of the broker" in text(console), "the question")
        await pilot.press(*", ".join(map(str, directories(lab))), "enter")
        await until(pilot, lambda: words in text(console), words)
        return text(console)


def logs(lab: Damaged) -> dict[str, DiskLog]:
    return {
        topic: read_log(lab.cluster.broker(3).partition_folder(topic, 0))
        for topic in (*TAILS, KEPT, ALONE, ERASED)
    }


def everything(lab: Damaged) -> dict[str, bytes]:
    files = (
        path for root in directories(lab) for path in sorted(root.rglob("*")) if path.is_file()
    )
    return {str(file): file.read_bytes() for file in files}


def tear(lab: Damaged, topic: str) -> None:
    """Leave half a batch at the end, as a broker does that is killed while it writes."""
    folder = lab.cluster.broker(3).partition_folder(topic, 0)
    assert folder is not None
    (segment,) = folder.glob("*.log")
    with segment.open("r+b") as file:
        begun = file.read(HALF_A_BATCH)
        end = read_log(folder).end
        file.seek(0, os.SEEK_END)
        file.write(end.to_bytes(8, "big") + begun[8:])


def make(cluster: Cluster, topic: str, assignment: list[list[int]]) -> None:
    """Make a topic although a broker of *assignment* is down."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}, logger=LOG)
    new = NewTopic(topic, num_partitions=1, replica_assignment=assignment)
    admin.create_topics([new])[topic].result(SECONDS)
    cluster.wait_partition(topic, 0, lambda state: state.leader == 1, "b1 to lead")


def told(ended: Ended) -> dict[str, dict[str, Any]]:
    return {one["topic"]: one for one in ended.document["partitions"]}


def test_what_would_be_lost_is_told_by_partition_and_record(course: Course) -> None:
    assert course.before.code == 1
    document = course.before.document
    assert (document["broker"], document["safe_to_start"]) == (3, False)
    assert document["lost"] == OWN * len(TAILS)
    for topic in TAILS:
        one = told(course.before)[topic]
        assert (one["fate"], one["lost"], one["first_lost"]) == ("lost", OWN, SHARED), topic
        assert (one["leader"], one["dropped"]) == (1, [{"start": SHARED, "end": SHARED + OWN}])
    assert "do not start b3: 35 records would be lost, 6 partitions not safe" in course.before.err
    assert "breakglass rescue --source log:" in course.before.err


def test_what_is_not_cut_is_told_to_be_kept_and_why(course: Course) -> None:
    found = told(course.before)
    assert (found[KEPT]["fate"], found[KEPT]["why"]) == ("kept", "b1 holds all of it")
    assert (found[ALONE]["fate"], found[ALONE]["leads"]) == ("kept", True)
    assert (found[DELETED]["fate"], found[DELETED]["why"]) == (
        "kept",
        "the cluster has no such partition: set aside as `-stray`, not deleted",
    )


def test_r48_a_log_before_all_that_its_leader_holds_is_unknown_until_it_is_rescued_whole(
    course: Course,
) -> None:
    before, after = told(course.before)[ERASED], told(course.after)[ERASED]
    held = SHARED + OWN
    assert (before["fate"], before["lost"], before["first_lost"]) == ("unknown", held, 0)
    assert (after["fate"], after["rescued"], after["lost"]) == ("rescued", held, 0)
    (path,) = [
        one["path"] for one in course.rescued.document["partitions"] if one["topic"] == ERASED
    ]
    gone = course.disk[ERASED].identities - course.returned[ERASED].identities
    kept = breakglass("backup", "cat", path).out.splitlines()
    assert {json.loads(line)["offset"] for line in kept} == {offset for _, offset in gone}
    assert len(gone) == held


def test_a_replica_in_none_of_the_folders_is_not_known_to_be_safe(course: Course) -> None:
    whole, part = told(course.before), told(course.one_directory)
    missing = [topic for topic, one in part.items() if one["log"] is None]
    assert course.one_directory.code == 1
    assert 0 < len(missing) < len(whole)
    for topic in missing:
        assert part[topic]["fate"] == "unknown"
        assert part[topic]["why"].startswith("it is in none of these folders")


def test_a_topic_that_was_made_while_the_broker_was_down_is_safe_if_all_its_log_dirs_were_named(
    course: Course,
) -> None:
    one = told(course.made_since)[MADE_SINCE]
    assert (one["fate"], one["log"]) == ("kept", None)
    assert course.made_since.code == course.after.code
    assert "these are all its log.dirs, with no log of 1 partition" in course.made_since.err


def test_once_rescued_it_is_safe_to_start_and_all_was_only_read(course: Course) -> None:
    assert course.rescued.code in (0, 1), course.rescued.err
    assert course.after.code == 0, course.after.err
    assert course.after.document["safe_to_start"] is True
    for topic in TAILS:
        one = told(course.after)[topic]
        assert (one["fate"], one["records"], one["rescued"], one["lost"]) == (
            "rescued",
            OWN,
            OWN,
            0,
        )
    assert [topic for topic, one in told(course.after).items() if one["torn"]] == [TAILS[0]]
    assert "b3 is safe to start" in course.after.err
    assert course.untouched


def test_what_it_lost_by_starting_is_what_was_foretold_and_is_in_the_rescue(course: Course) -> None:
    paths = {one["topic"]: one["path"] for one in course.rescued.document["partitions"]}
    for topic in TAILS:
        gone = course.disk[topic].identities - course.returned[topic].identities
        assert len(gone) == OWN
        kept = [
            json.loads(line) for line in breakglass("backup", "cat", paths[topic]).out.splitlines()
        ]
        assert {one["offset"] for one in kept} == {offset for _, offset in gone}
    for topic in (KEPT, ALONE):
        assert course.disk[topic].identities <= course.returned[topic].identities
    assert course.stray


def test_the_offline_screen_shows_it_for_the_broker_of_the_folders(course: Course) -> None:
    before, after = course.screens["before"], course.screens["after"]
    lost = f"{OWN} records, the first at offset {SHARED}"
    assert f"{TAILS[0]}-0  lost: in no rescue: {lost}" in before
    assert "do not start b3: 35 records would be lost, 6 partitions not safe" in before
    assert "breakglass rescue --source log:" in before
    assert f"{OWN * len(TAILS) + SHARED + OWN} records" in " ".join(after.split())


def test_a_broker_that_runs_is_refused(course: Course) -> None:
    assert course.running.code == 3
    assert "b3 runs, or was stopped a moment ago" in course.running.err
