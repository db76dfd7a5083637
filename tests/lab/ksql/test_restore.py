"""`ksql restore` on a real broker: rules M3, M6 and M11, and a crash anywhere."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.settings import REPLICAS
from tests.kit.clusters import in_main_job
from tests.lab.asking import NO_LOG
from tests.lab.ksql.commands import Done, backed_up, run
from tests.lab.ksql.topics import SECONDS, CommandTopic
from tests.unit.metastore.generating import Generator
from tests.unit.metastore.test_ksql_server import answering, body
from tests.unit.metastore.test_live_backup import stored


def restore(topic: CommandTopic, file: Path, *words: str) -> Done:
    return run(topic.cluster, "restore", str(file), *words)


def consented(topic: CommandTopic, file: Path, *words: str) -> Done:
    """The restore, with the phrase that the refusal named."""
    refused = restore(topic, file, "--write", *words)
    if refused.code != 3 or "consent: " not in refused.err:
        return refused
    return restore(topic, file, "--write", "--consent", refused.consent, *words)


def backup_of(topic: CommandTopic, folder: Path) -> Path:
    done = backed_up(topic, folder)
    return folder / str(done.last["file"])


@pytest.fixture
def records() -> list[CommandRecord]:
    return Generator(31).records(30)


@in_main_job
def test_m3_every_command_is_back_at_its_offset(
    topic: CommandTopic, folder: Path, records: list[CommandRecord]
) -> None:
    """The accident: everything is gone, and a server made the topic anew."""
    written = topic.produce(records)
    file = backup_of(topic, folder)
    topic.delete()
    topic.create()
    other = topic.produce(records[:3], group=3)
    before = topic.id

    read_only = restore(topic, file)
    assert read_only.code == 3
    refused = restore(topic, file, "--write")
    assert refused.code == 3
    assert refused.consent == f"{topic.name} lose 0"
    assert topic.id == before

    done = consented(topic, file)
    assert done.code == 0, done.err
    assert topic.id != before
    assert topic.read() == written
    (snapshot,) = (folder / "before-restore").glob("*/*.bak")
    assert stored(snapshot) == other

    again = consented(topic, file)
    assert again.code == 0
    assert topic.read() == written
    assert backed_up(topic, folder).kinds() == ["alarm", "continued", "caught up"]


def test_the_snapshot_brings_the_former_state_back(
    topic: CommandTopic, folder: Path, records: list[CommandRecord]
) -> None:
    topic.produce(records[:10])
    file = backup_of(topic, folder)
    topic.delete()
    topic.create()
    other = topic.produce(records[10:])
    done = restore(topic, file, "--write", "--consent", f"{topic.name} lose 20")
    assert done.code == 0, done.err
    (snapshot,) = (folder / "before-restore").glob("*/*.bak")
    assert consented(topic, snapshot).code == 0
    assert topic.read() == other


def test_m11_a_backup_that_ends_the_cluster_is_refused(
    topic: CommandTopic, folder: Path, records: list[CommandRecord]
) -> None:
    end = CommandRecord(
        0, b'"cluster/TerminateCluster/terminate"', b'{"statement":"TERMINATE CLUSTER;"}', 5
    )
    written = topic.produce([*records[:5], end, *records[5:10]])
    file = backup_of(topic, folder)
    refused = restore(topic, file, "--write")
    assert refused.code == 3
    assert "--skip-terminate-cluster" in refused.err
    topic.delete()
    done = consented(topic, file, "--skip-terminate-cluster")
    assert done.code == 0, done.err
    assert topic.read() == [*written[:5], *written[6:]]


def test_m6_what_tells_of_a_server_is_shown_and_part_of_the_phrase(
    topic: CommandTopic, folder: Path, records: list[CommandRecord]
) -> None:
    topic.produce(records[:5])
    file = backup_of(topic, folder)
    writer = Producer(
        {"bootstrap.servers": topic.cluster.lab_bootstrap, "transactional.id": topic.service_id},
        logger=NO_LOG,
    )
    writer.init_transactions(SECONDS)
    writer.begin_transaction()
    writer.produce(topic.name, key=records[5].key, value=records[5].value)
    writer.flush(SECONDS)
    plan = restore(topic, file, "--dry-run").last
    assert len(plan["servers_seen"]) == 1
    assert plan["done"]
    writer.abort_transaction(SECONDS)


def test_m6_a_server_that_answers_is_shown_and_part_of_the_phrase(
    topic: CommandTopic, folder: Path, records: list[CommandRecord]
) -> None:
    topic.produce(records[:5])
    file = backup_of(topic, folder)
    plan = restore(topic, file, "--dry-run").last
    assert plan["servers_seen"] == []
    info = {"ksqlServiceId": topic.service_id, "kafkaClusterId": plan["cluster_id"]}
    with answering(200, body(**info)) as url:
        plan = restore(topic, file, "--dry-run", "--server", url).last
        refused = restore(topic, file, "--dry-run", "--server", "http://a:secret@b1:8088")
    (seen,) = plan["servers_seen"]
    assert url in seen
    assert plan["phrase"] == f"{topic.name} lose 0 while servers run"
    assert refused.code == 2
    assert "secret" not in refused.err


def test_a_backup_without_offsets_is_refused_unless_they_may_be_others(
    topic: CommandTopic, folder: Path, records: list[CommandRecord]
) -> None:
    topic.produce(records)
    file = backup_of(topic, folder)
    file.with_name(file.name + ".side").unlink()
    refused = restore(topic, file, "--write")
    assert refused.code == 3
    assert "--compact-offsets" in refused.err
    plan = restore(topic, file, "--dry-run", "--compact-offsets").last
    assert plan["offsets"] == "compact"
    assert plan["query_ids_given_again"] == []
    done = consented(topic, file, "--compact-offsets")
    assert done.code == 0, done.err
    read = topic.read()
    assert [record.offset for record in read] == list(range(30))
    assert [(record.key, record.value) for record in read] == [
        (record.key, record.value) for record in records
    ]


def test_the_settings_of_the_new_topic_are_ksqldbs(
    topic: CommandTopic, folder: Path, records: list[CommandRecord]
) -> None:
    topic.produce(records[:3])
    file = backup_of(topic, folder)
    topic.delete()
    assert restore(topic, file, "--dry-run").last["replicas"] == 1
    assert f"{REPLICAS} of --config-file" in restore(topic, file, "--write").err
    assert consented(topic, file).code == 0
    settings = topic.settings()
    assert {key: settings[key] for key in sorted(settings)} == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "unclean.leader.election.enable": "false",
    }
