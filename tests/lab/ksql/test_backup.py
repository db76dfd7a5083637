"""`ksql backup` on a real broker: rules M4 and M5, and the accident of the KLIP."""

from pathlib import Path

import pytest

from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.metastore import backup_run
from breakglass.services.metastore.appender import side_of
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.log import reader
from breakglass.services.metastore.topic import TopicReader
from tests.kit.waiting import wait_until
from tests.lab.ksql.commands import backed_up, following, run
from tests.lab.ksql.topics import CommandTopic
from tests.unit.metastore.generating import Generator
from tests.unit.metastore.test_live_backup import content, stored


def words(topic: CommandTopic, folder: Path) -> tuple[str, ...]:
    return ("backup", "--service-id", topic.service_id, "--store", str(folder))


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.bak"))


def wait_for(file: Path, records: list[CommandRecord]) -> None:
    """Wait until the backup holds *records*."""
    wanted = content(records)
    wait_until(lambda: file.exists() and file.read_bytes() == wanted, f"the records in {file}")


@pytest.fixture
def records() -> list[CommandRecord]:
    return Generator(21).records(40)


def test_a_backup_holds_every_committed_command_with_its_offset(
    topic: CommandTopic, folder: Path, records: list[CommandRecord]
) -> None:
    written = topic.produce(records)
    assert written[-1].offset == 2 * len(records) - 2
    done = run(topic.cluster, *words(topic, folder), "--json")
    assert done.code == 0, done.err
    assert done.kinds() == ["begun", "caught up"]
    assert done.last["commands"] == done.last["appended"] == 40
    (file,) = files(folder)
    assert file.read_bytes() == content(written)
    assert stored(file) == written
    again = backed_up(topic, folder)
    assert again.kinds() == ["continued", "caught up"]
    assert again.last["appended"] == 0
    verified = run(None, "verify", str(file))
    assert verified.code == 0, verified.err


ODD = (
    CommandRecord(0, b'"stream/a/create"', b"{}", 1, (("name", b"value"), ("name", None))),
    CommandRecord(0, None, b"no key", 2),
    CommandRecord(0, b'"stream/a/drop"', None, 3),
    CommandRecord(0, b"", b"", 4),
    CommandRecord(0, b'"k\n:"', b"\r\n\xff\n", 5, (("", b""),)),
    CommandRecord(0, b'"k"', b"x" * 70_000, 6),
)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Where consumers begin to read."""
    found: list[int | None] = []

    class Noted(TopicReader):
        def __init__(self, client: ReadClient, topic: str, start: int | None = None) -> None:
            found.append(start)
            super().__init__(client, topic, start)

    monkeypatch.setattr(backup_run, "TopicReader", Noted)
    monkeypatch.setattr(reader, "TopicReader", Noted)
    return found


def test_whole_fetches_and_the_consumer_make_the_same_backup(
    topic: CommandTopic, folder: Path, starts: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.produce(ODD, group=4)
    topic.abort(ODD)
    written = [*topic.produce(Generator(21).records(40), group=7)]
    end = written[-1].offset + 2
    folders = folder / "fetches", folder / "consumer"
    for place, worthwhile in zip(folders, (1, 10**9), strict=True):
        monkeypatch.setattr("breakglass.services.metastore.topic.WORTHWHILE", worthwhile)
        assert backed_up(topic, place).last["appended"] == len(ODD) + len(written)
    assert starts == [end, None]
    by_fetches, by_consumer = (files(place)[0] for place in folders)
    assert by_fetches.read_bytes() == by_consumer.read_bytes()
    assert stored(by_fetches) == stored(by_consumer) == topic.read()
    noted = side_of(by_consumer).read_bytes()
    monkeypatch.setattr("breakglass.services.metastore.topic.WORTHWHILE", 1)
    kinds = backed_up(topic, folders[1]).kinds()
    assert (kinds[0], kinds[-1]) == ("continued", "caught up")
    assert side_of(by_consumer).read_bytes() == noted


def test_a_topic_that_does_not_exist_is_not_created(topic: CommandTopic, folder: Path) -> None:
    topic.delete()
    done = backed_up(topic, folder)
    assert done.code == 1
    assert all(partition.partition.topic != topic.name for partition in topic.cluster.partitions())


def test_m5_retention_of_nothing_is_noticed_before_anything_is_gone(
    topic: CommandTopic, folder: Path, records: list[CommandRecord]
) -> None:
    """The accident of the KLIP, at the broker's own pace: the alarm comes minutes before."""
    written = topic.produce(records[:20], group=20)
    with following(topic.cluster, *words(topic, folder)) as follower:
        follower.event(event="caught up")
        topic.configure(retention_ms="0")
        follower.event(danger="retention.ms")
        written += topic.produce(records[20:], group=20)
        wait_for(files(folder)[0], written)
        assert follower.stop()["alarms"] == 1
    evidence = (folder / f"{topic.name}.alarms.jsonl").read_text()
    assert '"value": "0", "source": "topic"' in evidence


def test_m5_a_setting_left_to_the_broker_is_judged_as_it_holds(
    topic: CommandTopic, folder: Path, records: list[CommandRecord]
) -> None:
    """Without retention.ms of its own the topic has the broker's week."""
    topic.delete()
    topic.create({})
    written = topic.produce(records, group=40)
    done = backed_up(topic, folder)
    assert done.code == 1
    (alarm,) = [line for line in done.lines if line.get("event") == "alarm"]
    assert (alarm["danger"], alarm["evidence"]["value"]) == ("retention.ms", "604800000")
    assert alarm["evidence"]["source"] != "topic"
    assert stored(files(folder)[0]) == written


def test_m5_deleted_records_are_noticed(
    topic: CommandTopic, folder: Path, records: list[CommandRecord]
) -> None:
    topic.produce(records, group=40)
    with following(topic.cluster, *words(topic, folder)) as follower:
        follower.event(event="caught up")
        topic.delete_records(10)
        follower.event(danger="records deleted")


def test_m4_a_topic_created_anew_is_noticed_and_gets_a_file_of_its_own(
    topic: CommandTopic, folder: Path, records: list[CommandRecord]
) -> None:
    written = topic.produce(records[:20], group=20)
    with following(topic.cluster, *words(topic, folder)) as follower:
        follower.event(event="caught up")
        topic.delete()
        follower.event(danger="topic missing")
        topic.create()
        follower.event(danger="topic recreated")
        follower.event(event="shorter", commands=0)
        other = topic.produce(records[20:] + records[:20], group=40)
        wait_until(lambda: len(files(folder)) == 2, "a file of its own")
        first, second = files(folder)
        wait_for(second, other)
        assert first.read_bytes() == content(written)
        alarms = [line["danger"] for line in follower.told if line.get("event") == "alarm"]
        assert alarms == ["topic missing", "topic recreated"], "no election has cut its log"


def test_m4_a_longer_topic_created_while_nobody_followed_is_noticed_at_once(
    topic: CommandTopic, folder: Path, records: list[CommandRecord]
) -> None:
    """A consumer that went on at its offset would put the new topic's commands behind the old."""
    written = topic.produce(records[:10], group=10)
    assert backed_up(topic, folder).code == 0
    topic.delete()
    topic.create()
    other = topic.produce(records[10:], group=30)
    done = backed_up(topic, folder)
    assert done.code == 1
    assert done.kinds()[0] == "alarm"
    assert done.lines[0]["danger"] == "topic recreated"
    first, second = files(folder)
    assert first.read_bytes() == content(written)
    assert stored(second) == other


def test_a_topic_created_anew_and_empty_is_told_with_what_the_backup_holds(
    topic: CommandTopic, folder: Path, records: list[CommandRecord]
) -> None:
    """ksqlDB says nothing until the next command comes."""
    written = topic.produce(records, group=40)
    assert backed_up(topic, folder).code == 0
    topic.delete()
    topic.create()
    done = backed_up(topic, folder)
    assert done.code == 1
    (shorter,) = [line for line in done.lines if line.get("event") == "shorter"]
    assert (shorter["commands"], shorter["missing"], done.last["lacking"]) == (0, 40, 40)
    assert stored(files(folder)[0]) == written


def test_a_restored_topic_is_continued_whatever_its_offsets(
    topic: CommandTopic, folder: Path, records: list[CommandRecord]
) -> None:
    topic.produce(records, group=1)
    assert backed_up(topic, folder).code == 0
    topic.delete()
    topic.create()
    restored = topic.produce(records, group=40)
    done = backed_up(topic, folder)
    assert done.kinds() == ["alarm", "continued", "caught up"]
    (file,) = files(folder)
    assert stored(file) == restored


def test_two_backups_of_a_service_do_not_write_at_once(topic: CommandTopic, folder: Path) -> None:
    with following(topic.cluster, *words(topic, folder)) as follower:
        follower.event(event="caught up")
        done = backed_up(topic, folder)
        assert done.code == 3


REFUSED = (
    CommandRecord(0, b'"stream/`A`/create"', b"not JSON", 1),
    CommandRecord(0, b'"stream/`B`/create"', b'{"statement":"\xff"}', 2),
    CommandRecord(0, b'"stream/`C`/create"', b'{"statement":"x","version":99}', 3),
    CommandRecord(0, b"no id", b'{"statement":"x"}', 4),
)


def test_m16_commands_that_a_restore_refuses_are_kept_and_said_at_each_run(
    topic: CommandTopic, folder: Path, records: list[CommandRecord]
) -> None:
    written = topic.produce([records[0], *REFUSED, records[1]], group=6)
    for kinds in (["begun"], ["continued"]):
        done = run(topic.cluster, *words(topic, folder), "--json")
        assert done.code == 1
        assert done.kinds() == [*kinds, *["unrestorable"] * 4, "caught up"]
        assert [line["line"] for line in done.lines if line.get("event") == "unrestorable"] == [
            2,
            3,
            4,
            5,
        ]
        assert done.last["refused"] == 4
    (file,) = files(folder)
    assert stored(file) == written
    assert run(None, "verify", str(file)).code == 1


def test_a_killed_follower_is_continued(
    topic: CommandTopic, folder: Path, records: list[CommandRecord]
) -> None:
    written = topic.produce(records[:20], group=20)
    with following(topic.cluster, *words(topic, folder)) as follower:
        follower.event(event="caught up")
        follower.kill()
    written += topic.produce(records[20:])
    done = backed_up(topic, folder)
    assert (done.code, done.last["appended"]) == (0, 20)
    assert stored(files(folder)[0]) == written


def test_a_servers_own_properties_name_all_that_is_needed(
    topic: CommandTopic, folder: Path, records: list[CommandRecord], tmp_path: Path
) -> None:
    topic.produce(records, group=40)
    config = tmp_path / "ksql-server.properties"
    config.write_text(
        f"bootstrap.servers={topic.cluster.bootstrap_servers}\n"
        f"ksql.service.id={topic.service_id}\n"
        f"ksql.metastore.backup.location={folder}\n"
        "listeners=http://0.0.0.0:8088\n"
        "ksql.enable.metastore.backup=true\n"
    )
    done = run(None, "backup", "--config-file", str(config))
    assert done.code == 0
    assert len(stored(files(folder)[0])) == 40
    config.write_text(config.read_text().replace("=true", "=false"))
    off = run(None, "backup", "--config-file", str(config))
    assert off.code == 0
    assert "ksql.enable.metastore.backup" in off.err
