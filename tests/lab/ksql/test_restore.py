"""`ksql restore` on a real broker: rules M3, M6 and M11, and a crash anywhere."""

import subprocess
import sys
from pathlib import Path

import pytest

from breakglass.services.lab.distribution import distribution, tool_command
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.settings import REPLICAS
from tests.kit.clusters import in_main_job
from tests.kit.running import ran
from tests.lab.asking import transactional
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
    writer = transactional(topic.cluster, topic.service_id)
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


PROGRAM = "import sys; from breakglass.console.restore_command_topic import main; sys.exit(main())"
ENDED = "You need to restart the ksqlDB server to re-load the command topic.\n"


def program(*words: str, typed: str = "") -> Done:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        input=typed,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def properties(topic: CommandTopic, tmp_path: Path) -> str:
    """The server's own file."""
    file = tmp_path / "ksql-server.properties"
    file.write_text(
        f"bootstrap.servers={topic.cluster.bootstrap_servers}\n"
        f"ksql.service.id={topic.service_id}\nlisteners=http://0.0.0.0:8088\n"
    )
    return str(file)


def test_its_options_and_messages_are_ksqldbs(
    topic: CommandTopic, folder: Path, properties: str
) -> None:
    newer = CommandRecord(0, b'"stream/`A`/create"', b'{"statement":"x","version":99}')
    written = topic.produce([*Generator(71).records(10), newer])[:10]
    file = str(folder / str(backed_up(topic, folder).last["file"]))
    topic.delete()
    topic.create()
    other = topic.produce(Generator(72).records(2))

    torn = Path(file).with_name("torn.bak")
    torn.write_bytes(b"".join(Path(file).read_bytes().splitlines(keepends=True)[:3]))
    side = Path(f"{file}.side").read_bytes()
    Path(f"{torn}.side").write_bytes(side[:-5])
    refused = program("--config-file", properties, str(torn), "--yes", "-s")
    assert (refused.code, topic.read()) == (1, other)
    missing = program("--config-file", properties, "nowhere", "--yes")
    assert (missing.code, missing.err) == (2, "File does not exist: nowhere\n")
    no = program("--config-file", properties, file, typed="no\n")
    assert no.code == 0
    assert no.out.startswith("Restoring the command topic will DELETE your actual metadata.\n")
    assert topic.read() == other

    bad = program("--config-file", properties, file, "-y")
    assert bad.code == 1
    assert "Failed loading backup file.\nError = Incompatible Command string (line 11)" in bad.err
    assert topic.read() == other

    phrase = f"{topic.name} lose 2"
    done = program("-s", "--config-file", properties, "-y", file, "--consent", phrase)
    assert done.code == 0, done.err
    assert "1 incompatible command(s) skipped from backup file.\nBackup (10 records)" in done.out
    assert done.out.endswith(ENDED)
    assert topic.read() == written


def test_a_file_of_ksqldbs_own_gets_its_offsets(
    topic: CommandTopic, tmp_path: Path, properties: str
) -> None:
    """Without a side file: 0, 2, 4, as a transaction a command leaves them."""
    records = Generator(73).records(5)
    file = tmp_path / f"backup_{topic.name}_1593540976000"
    file.write_bytes(b"".join([record.line for record in records]))
    done = program("--config-file", properties, str(file), typed="yes\n")
    assert done.code == 0, done.err
    read = topic.read()
    assert [record.offset for record in read] == [0, 2, 4, 6, 8]
    assert [record.line for record in read] == [record.line for record in records]


@pytest.mark.parametrize(("left", "others"), [(0, 0), (3, 0), (3, 1), (0, 6)])
def test_m15_a_backup_that_lacks_commands_of_the_topic_needs_its_phrase_whatever_yes_says(
    left: int, others: int, topic: CommandTopic, tmp_path: Path, properties: str
) -> None:
    """A full disk and a torn copy leave such a file, or it is of another service."""
    written = topic.produce(Generator(75).records(4))
    kept = [*written[:left], *Generator(76).records(others)]
    file = tmp_path / f"backup_{topic.name}_1593540976000"
    file.write_bytes(b"".join([record.line for record in kept]))
    words = ("--config-file", properties, str(file), "--yes")

    refused = program(*words)
    assert (refused.code, topic.read()) == (3, written)
    phrase = f"{topic.name} lose {4 - left}"
    assert f"consent: {phrase}" in refused.err.splitlines()
    assert program(*words, "--consent", f"{topic.name} lose 0").code == 3

    done = program(*words, "--consent", phrase)
    assert done.code == 0, done.err
    assert [record.line for record in topic.read()] == [record.line for record in kept]
    (copy,) = [word for word in done.out.split() if word.startswith(str(tmp_path))]
    assert stored(Path(copy)) == written


CONSOLE_PRODUCER = {
    "3.9.2": (
        "kafka.tools.ConsoleProducer",
        ("--broker-list", "{brokers}", "--property", "parse.key=true"),
        ("--property", "key.separator=:"),
    ),
    "4.3.1": (
        "org.apache.kafka.tools.ConsoleProducer",
        ("--bootstrap-server", "{brokers}", "--reader-property", "parse.key=true"),
        ("--reader-property", "key.separator=:"),
    ),
}
"""The KLIP's command as it is printed, and as newer tools have it."""


@pytest.mark.parametrize("version", CONSOLE_PRODUCER)
def test_the_way_of_the_klip(version: str, topic: CommandTopic, folder: Path) -> None:
    written = topic.produce(Generator(74, plain=True).records(12))
    file = folder / str(backed_up(topic, folder).last["file"])
    topic.delete()
    topic.create()
    lines = ran("ksql", "show", "--lines", file)
    assert lines.code == 0, lines.err
    main, reach, split = CONSOLE_PRODUCER[version]
    words = [text.format(brokers=topic.cluster.lab_bootstrap) for text in (*reach, *split)]
    command = tool_command(distribution(version), main, ["--topic", topic.name, *words])
    done = subprocess.run(
        command, input=lines.out.encode(), capture_output=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    read = topic.read()
    assert [record.line for record in read] == [record.line for record in written]
    assert [record.offset for record in read] == list(range(12))


def test_a_name_that_it_would_split_is_refused_with_a_pointer(tmp_path: Path) -> None:
    file = tmp_path / "a_1.bak"
    file.write_bytes(b'"stream/`B`/create":{"statement":"x"}\n"stream/`A:B`/create":{}\n')
    refused = run(None, "lines", str(file))
    assert (refused.code, refused.out) == (3, "")
    assert "line 2 has ':' in its name" in refused.err
    assert "`breakglass ksql restore`" in refused.err
