"""The JVM of Spark: how it is started, ended and made to start sooner."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from breakglass.services.errors import PipelineError
from breakglass.services.pipeline.gateway import OPTIONS, SCRIPTED, Gateway, Launch, scripted
from breakglass.services.pipeline.java import (
    ABANDONED_SECONDS,
    NICENESS,
    ClassArchive,
    class_archive,
    find_java,
    shim,
)
from tests.kit.waiting import wait_until


def launch(folder: Path, script: str, niceness: int = 0) -> Launch:
    """Of a ``java`` that does what *script* says."""
    java = folder / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return Launch(java, "", "1g", (), {NICENESS: str(niceness)}, folder / "errors")


def test_the_jvm_has_the_options_that_sparks_own_launcher_gives_it() -> None:
    pyspark = find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    home = Path(pyspark.origin).parent
    launcher = "org.apache.spark.launcher.Main"
    told = subprocess.run(
        [find_java(), "-cp", home / "jars" / "*", launcher, "org.apache.spark.deploy.SparkSubmit"],
        env={**os.environ, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"},
        capture_output=True,
        check=True,
    )
    given = {part.decode() for part in told.stdout.split(b"\0") if part.startswith(b"-")}
    # The JVM of Breakglass has no vectors, Derby or class path of the launcher's.
    others = {"-cp", "-Xmx1g", "--add-modules=jdk.incubator.vector"}
    derby = "-Dderby.connection.requireAuthentication=false"
    assert given - others - {derby} == set(OPTIONS)


def test_a_jvm_that_ends_as_it_starts_is_said(tmp_path: Path) -> None:
    gateway = Gateway(launch(tmp_path, "echo no memory >&2; exit 3"))
    with pytest.raises(PipelineError):
        gateway.environment()
    assert (tmp_path / "errors").read_text() == "no memory\n"


def test_a_jvm_that_is_killed_before_it_listens_is_said(tmp_path: Path) -> None:
    gateway = Gateway(launch(tmp_path, "exec sleep 3600"))
    gateway.kill()
    with pytest.raises(PipelineError):
        gateway.environment()


def test_the_port_and_the_secret_are_read_where_the_jvm_writes_them(tmp_path: Path) -> None:
    # As PythonGatewayServer.scala: a file that is whole as soon as it has its name.
    # Beside it: from another file system `mv` copies, and the file has its name while it is empty.
    part = "$_PYSPARK_DRIVER_CONN_INFO_PATH.part"
    written = f"printf '\\000\\000\\037\\220\\000\\000\\000\\003key' > {part}"
    named = f"mv {part} $_PYSPARK_DRIVER_CONN_INFO_PATH"
    gateway = Gateway(launch(tmp_path, f"cd {tmp_path}; {written}; {named}; exec cat"))
    found = gateway.environment()
    assert found == {"PYSPARK_GATEWAY_PORT": "8080", "PYSPARK_GATEWAY_SECRET": "key"}
    gateway.kill()


@pytest.mark.parametrize("niceness", [0, 10])
def test_the_jvm_is_out_of_the_reach_of_ctrl_c(tmp_path: Path, niceness: int) -> None:
    leads = "exec setsid" if niceness else "exec"
    gateway = Gateway(launch(tmp_path, f"{leads} sleep 3600", niceness))
    wait_until(lambda: os.getpgid(gateway.process.pid) != os.getpgid(0), "a group of its own")
    assert gateway.process.poll() is None
    gateway.kill()


@pytest.mark.parametrize("name", SCRIPTED)
def test_who_says_how_spark_is_to_be_started_is_heeded(name: str) -> None:
    assert not scripted({})
    assert scripted({name: "something"})


SAYS_HOW = """\
#!/bin/sh
nice
printf '%s,' "$@"
cat /proc/self/autogroup 2>/dev/null
"""
GIVEN = ["--add-modules=jdk.incubator.vector", "-Dsome=a thing", "Main"]


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """What runs a Java that tells its niceness, its options and its session's weight."""
    real = tmp_path / "real java"
    real.write_text(SAYS_HOW)
    real.chmod(0o755)
    return shim(real, tmp_path / "home") / "bin" / "java"


def run(java: Path, niceness: int | None) -> list[str]:
    """What Java said, by lines."""
    given = {} if niceness is None else {NICENESS: str(niceness)}
    answer = subprocess.run(
        [str(java), *GIVEN], env=os.environ | given, capture_output=True, text=True, check=True
    )
    assert not answer.stderr
    return answer.stdout.splitlines()


def test_the_module_that_a_trimmed_runtime_lacks_is_left_out(java: Path) -> None:
    _, options, *_ = run(java, None)
    assert options.startswith("-Dsome=a thing,Main,")
    assert "jdk.incubator.vector" not in options


@pytest.mark.parametrize("niceness", [None, 0])
def test_it_runs_like_any_other_process(java: Path, niceness: int | None) -> None:
    assert run(java, niceness)[0] == str(os.nice(0))


def test_it_runs_behind_the_others_with_all_it_was_given(java: Path) -> None:
    niceness, told = run(java, 7)
    assert niceness == str(min(19, os.nice(0) + 7))
    assert told.startswith("-Dsome=a thing,Main,")
    if (found := Path("/proc/self/autogroup")).exists() and found.read_text().strip():
        assert told.endswith("nice 7")


SPARK = find_spec("pyspark")
assert SPARK is not None
assert SPARK.origin is not None
CLASS_PATH = str(next((Path(SPARK.origin).parent / "jars").glob("*.jar")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spark"


def chosen(folder: Path, *depends: str) -> ClassArchive:
    return class_archive(find_java(), depends, folder)


def run_with(archive: ClassArchive) -> subprocess.CompletedProcess[str]:
    """A JVM with these options, of the class path that is noted."""
    archive.note(CLASS_PATH)
    command = [str(find_java()), *archive.options, "-cp", CLASS_PATH, "-version"]
    return subprocess.run(command, capture_output=True, text=True, check=True)


@pytest.fixture(scope="module")
def first_session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder as the JVM of the first session has left it."""
    folder = tmp_path_factory.mktemp("first") / "spark"
    first = chosen(folder)
    assert run_with(first).stdout == "", "stdout is the command's own"
    assert first.written is not None
    return folder


@pytest.fixture
def left(folder: Path, first_session: Path) -> Path:
    """What the JVM of the first session has left."""
    shutil.copytree(first_session, folder)
    (archive,) = [path for path in folder.iterdir() if path.suffix != ".classpath"]
    return archive


def test_the_second_session_uses_what_the_first_has_left(folder: Path, left: Path) -> None:
    second = chosen(folder)
    assert second.written is None
    (option,) = [option for option in second.options if option.startswith("-XX:SharedArchiveFile=")]
    archive = Path(option.partition("=")[2])
    assert [*folder.iterdir()] == [archive]
    assert run_with(second).stdout == ""
    assert chosen(folder) == second, "and so does the third"


def test_an_archive_that_is_cut_short_is_not_used(folder: Path, left: Path) -> None:
    left.chmod(0o600)
    os.truncate(left, left.stat().st_size // 2)
    assert chosen(folder).written is not None


def test_one_whose_class_path_was_not_noted_is_not_used(folder: Path, left: Path) -> None:
    for noted in folder.glob("*.classpath"):
        noted.unlink()
    assert chosen(folder).written is not None


def test_one_of_another_spark_is_not_used(folder: Path, left: Path) -> None:
    assert chosen(folder, "another").written is not None


def test_what_nobody_writes_to_any_more_is_removed(folder: Path, left: Path) -> None:
    chosen(folder, "another")
    assert left.exists()
    long_ago = left.stat().st_mtime - ABANDONED_SECONDS - 1
    for file in folder.iterdir():
        os.utime(file, (long_ago, long_ago))
    chosen(folder, "another")
    assert [*folder.iterdir()] == []


def test_without_a_cache_spark_starts_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert chosen(tmp_path / "file" / "spark") == ClassArchive()
