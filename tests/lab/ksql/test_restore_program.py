"""`ksql-restore-command-topic` as its users know it, and the KLIP's own route beside it."""

import subprocess
import sys
from pathlib import Path

import pytest

from breakglass.services.lab.distribution import distribution, tool_command
from breakglass.services.metastore.lines import CommandRecord
from tests.kit.running import ran
from tests.lab.ksql.commands import Done, backed_up, run
from tests.lab.ksql.topics import SECONDS, CommandTopic
from tests.unit.metastore.generating import Generator
from tests.unit.metastore.test_live_backup import stored

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
