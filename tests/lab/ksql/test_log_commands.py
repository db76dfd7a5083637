"""What is read and written of a service's log, by commands and by the console's screen."""

import json
from pathlib import Path
from typing import Any

from breakglass.services.lab.topics import create_topic
from breakglass.services.metastore.glance import NewestBackup, ServiceWatch
from breakglass.services.metastore.metastore import Metastore
from breakglass.services.model import Unknown
from tests.kit.clusters import access_to
from tests.lab.ksql.commands import Done, backed_up, run
from tests.lab.ksql.test_restore import consented
from tests.lab.ksql.test_round_trip import metastore_of
from tests.lab.ksql.topics import CommandTopic
from tests.unit.metastore.generating import Generator


def told(topic: CommandTopic, *words: str) -> tuple[Done, dict[str, Any]]:
    done = run(topic.cluster, *words, "--service-id", topic.service_id, "--json")
    return done, json.loads(done.out) if done.out else {}


def test_a_statement_is_validated_and_submitted_and_seen(topic: CommandTopic) -> None:
    create_topic(topic.cluster, f"t-{topic.service_id}", [[1]])
    statement = (
        f"CREATE STREAM `a:b` (ID INT KEY) WITH (KAFKA_TOPIC='t-{topic.service_id}', FORMAT='JSON')"
    )
    done, plan = told(topic, "validate", statement)
    assert done.code == 0, done.err
    assert (plan["id"], plan["executable"]) == ("stream/`a:b`/create", True)
    assert plan["command"]["plan"]["ddlCommand"]["schema"] == "`ID` INTEGER KEY"
    missing, _ = told(topic, "validate", statement.replace("t-", "u-"))
    assert missing.code == 2

    assert told(topic, "submit", statement)[0].code == 3
    registered = statement.replace("JSON", "AVRO")
    planless, _ = told(topic, "submit", registered, "--write")
    assert (planless.code, "--server" in planless.err) == (3, True)
    words = ("submit", statement, "--write")
    refused, _ = told(topic, *words)
    phrase = f"{topic.name} stream/`a:b`/create"
    assert refused.consent == phrase
    assert topic.read() == []
    done, submitted = told(topic, *words, "--consent", phrase)
    assert done.code == 0, done.err
    assert submitted["offset"] == 0

    topic_gone, listed = told(topic, "list")
    assert topic_gone.code == 0
    assert set(listed["metastore"]["sources"]) == {"a:b"}
    assert listed["inconsistencies"] == {}
    _, history = told(topic, "history")
    assert [one["id"] for one in history["commands"]] == ["stream/`a:b`/create"]


def test_a_compacted_backup_restores_the_same_metastore(
    topic: CommandTopic, tmp_path: Path
) -> None:
    """The blog's third wish."""
    written = topic.produce(Generator(41).records(120, gaps=True), group=4)
    file = tmp_path / "backups" / str(backed_up(topic, tmp_path / "backups").last["file"])
    done = run(None, "compact", str(file), "--out", str(tmp_path / "small"), "--json")
    assert done.code == 0, done.err
    told_of = json.loads(done.out)
    assert told_of["commands"] < told_of["commands_before"] == 120
    assert told_of["digest"] == metastore_of(written)
    assert run(None, "verify", told_of["file"]).code == 0
    restored = consented(topic, Path(told_of["file"]))
    assert restored.code == 0, restored.err
    read = topic.read()
    assert metastore_of(read) == metastore_of(written)
    offsets = {record.key: record.offset for record in written}
    assert {record.offset for record in read} < set(offsets.values()) | {o.offset for o in written}
    again = run(None, "compact", str(file), "--out", str(tmp_path / "small"))
    assert again.code == 3


def test_a_service_is_followed_with_its_backup_beside_it(topic: CommandTopic, folder: Path) -> None:
    records = Generator(81).records(9)
    topic.produce(records[:6])
    watch = ServiceWatch(topic.name, folder)
    with access_to(topic.cluster).reading() as client:
        first = watch.look(client)
        assert isinstance(first.backup, Unknown)
        assert len(first.entries) == 6
        assert set(first.wrong) == set(first.metastore.sources)
        backed_up(topic, folder)
        topic.produce(records[6:])
        second = watch.look(client)
        assert isinstance(second.backup, NewestBackup)
        assert (second.backup.counts.same, second.backup.counts.only_topic) == (6, 3)
        assert len(second.entries) == 9
        topic.configure(retention_ms="0")
        topic.delete()
        assert any("is gone" in alarm for alarm in watch.look(client).alarms)
        topic.create()
        anew = watch.look(client)
        assert anew.metastore == Metastore()
        assert isinstance(anew.backup, NewestBackup)
        assert anew.backup.counts.only_backup == 6
