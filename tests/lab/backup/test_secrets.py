"""Backups through TLS and SASL: where secrets are, and what a user lacks who may do less."""

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern, produce
from breakglass.services.lab.produce import produce as produce_many
from breakglass.services.lab.properties import OPERATOR, SUPER_USER, lab_password, security_folder
from breakglass.services.pipeline.restore.restore import TopicRestored
from breakglass.services.pipeline.session import Spark
from breakglass.services.session import ReadAccess
from tests.kit.access import Acl, Operation, Resource, grant
from tests.kit.client_properties import write_client_properties
from tests.kit.running import Running
from tests.kit.waiting import wait_until
from tests.lab.backup.backups import backing_up
from tests.lab.backup.commands import started
from tests.lab.backup.producing import make
from tests.lab.backup.restores import Restore

ENCRYPTION_KEY = "c0ffee5ec4e7" * 5 + "beef"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker with TLS and SASL."""
    folder = tmp_path_factory.mktemp("secured")
    with Cluster.up(folder, brokers=1, secured=True, tethered=True) as cluster:
        yield cluster


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where Spark keeps all files of a run: temporary ones, logs, and the log of its events.

    Its path is short: Spark's sockets are among the temporary files.
    """
    with TemporaryDirectory(prefix="kept-") as folder:
        prepare(Path(folder), tmp_path / "conf", monkeypatch)
        yield Path(folder)


def prepare(folder: Path, configuration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what Spark keeps be below *folder*."""
    for name in ("temporary", "local", "events", "state"):
        (folder / name).mkdir(parents=True)
    configuration.mkdir()
    (configuration / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.dir {(folder / 'events').as_uri()}\n"
        "spark.eventLog.compress false\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(configuration))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(folder / "local"))
    monkeypatch.setenv("TMPDIR", str(folder / "temporary"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.io.tmpdir={folder / 'temporary'}")


@contextmanager
def stopped_midway(process: Running, folder: Path) -> Iterator[list[psutil.Process]]:
    """All processes of a backup, stopped once it has begun to write below *folder*."""

    def writing() -> bool:
        assert not process.ended, process.said
        return any(path.is_file() and path.stat().st_size > 1 for path in folder.rglob("*records*"))

    wait_until(writing, "the backup to write", every=0.002)
    whole = psutil.Process(process.pid)
    # Of Spark's scripts a shell may be left that has ended, and that nobody waits for.
    below = [
        child for child in whole.children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE
    ]
    processes = [whole, *below]
    for one in processes:
        one.suspend()
    try:
        yield processes
    finally:
        for one in reversed(processes):
            with contextlib.suppress(psutil.Error):
                one.kill()


def test_secrets_that_go_to_tasks_are_in_no_file_and_no_list_of_processes(
    secured: Cluster, kept: Path, topic: str, tmp_path: Path
) -> None:
    make(secured, topic)
    produce_many(secured, topic, 0, 60_000, pattern=Pattern(value_bytes=1000))
    login = write_client_properties(secured.layout, SUPER_USER, certificate=True)
    key = tmp_path / "key"
    key.write_text(ENCRYPTION_KEY)
    own = (security_folder(secured.layout) / f"{SUPER_USER}.pem").read_text()
    secrets = {
        "the password": lab_password(SUPER_USER).encode(),
        "the private key": own.splitlines()[2].encode(),
        "the key of the backup": ENCRYPTION_KEY.encode(),
        "the key of the backup, in bytes": bytes.fromhex(ENCRYPTION_KEY),
    }
    backup = tmp_path / "backup"
    words = ["run", "--topics", topic, "--store", str(backup), "--key", str(key)]
    words += ["--command-config", str(login), "--max-segment-bytes", "5000000"]
    with started(secured, *words) as process, stopped_midway(process, backup) as processes:
        seen = {
            f"{process.pid}": " ".join(process.cmdline()) + str(process.environ())
            for process in processes
        }
        for path in kept.rglob("*"):
            if path.is_file():
                seen[str(path)] = path.read_bytes().decode("latin-1")
    assert any("SparkListenerJobStart" in content for content in seen.values())
    assert len(processes) > 2, "the driver, its JVM and workers"
    for name, secret in secrets.items():
        found = [where for where, text in seen.items() if secret.decode("latin-1") in text]
        assert found == [], name


@contextmanager
def as_user(name: str, cluster: Cluster, spark: Spark, folder: Path) -> Iterator[Restore]:
    """Backs up and restores as somebody, by one file of client properties."""
    file = write_client_properties(cluster.layout, name)
    options = ConnectionOptions(cluster.bootstrap_servers, command_config=str(file))
    access = ReadAccess(connection_settings(options, {}))
    with backing_up(access, spark, folder) as back_up:
        yield Restore(back_up, folder / "state")


def allowing(operation: Operation, resource: Resource) -> Acl:
    return Acl(OPERATOR, operation, resource, "*")


def test_a_restore_that_is_not_allowed_says_what_it_lacks_and_goes_on_with_it(
    secured: Cluster, spark: Spark, topic: str, tmp_path: Path
) -> None:
    make(secured, topic)
    produce(secured, topic, 0, 20)
    with as_user(SUPER_USER, secured, spark, tmp_path) as whole:
        whole.back_up.topic(topic)
    target = f"{topic}-back"

    def restored(*, resume: bool = False) -> TopicRestored:
        with as_user(OPERATOR, secured, spark, tmp_path) as operator:
            return operator(operator.plan(topic, target, resume=resume))

    reading = (Operation.READ, Operation.DESCRIBE_CONFIGS)
    grant(secured, *(allowing(operation, Resource.TOPIC) for operation in reading))
    assert "grant CREATE on topic" in restored().error
    making = (Operation.CREATE, Operation.ALTER_CONFIGS)
    grant(secured, *(allowing(operation, Resource.TOPIC) for operation in making))
    steps = [
        (allowing(Operation.WRITE, Resource.TRANSACTIONAL_ID), "WRITE on transactional ids"),
        (allowing(Operation.READ, Resource.GROUP), "READ on groups"),
        (allowing(Operation.WRITE, Resource.TOPIC), "grant WRITE on it"),
    ]
    for number, (acl, lacking) in enumerate(steps):
        done = restored(resume=number > 0)
        assert lacking in done.error
        assert done.records == 0
        grant(secured, acl)
    done = restored(resume=True)
    assert (done.error, done.verified, done.records) == ("", True, 20)
