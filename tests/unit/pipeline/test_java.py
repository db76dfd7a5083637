"""The JVM of Spark: how it is started, ended and made to start sooner."""

import os
import re
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

from breakglass.services.errors import PipelineError
from breakglass.services.pipeline.java import (
    NICENESS,
    OPTIONS,
    ClassArchive,
    Gateway,
    Launch,
    class_archive,
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
    (launcher,) = (Path(pyspark.origin).parent / "jars").glob("spark-launcher_*.jar")
    with ZipFile(launcher) as jar:
        content = jar.read("org/apache/spark/launcher/JavaModuleOptions.class")
    given = {found.decode() for found in re.findall(rb"-[-XD][\w.:=/+-]+", content)}
    # The JVM of Breakglass has no vectors.
    assert given - {"--add-modules=jdk.incubator.vector"} == set(OPTIONS)


def test_a_jvm_that_ends_as_it_starts_is_said(tmp_path: Path) -> None:
    gateway = Gateway(launch(tmp_path, "echo no memory >&2; exit 3"))
    with pytest.raises(PipelineError):
        gateway.environment()
    assert (tmp_path / "errors").read_text() == "no memory\n"


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


SAYS_HOW = """\
#!/bin/sh
nice
printf '%s,' "$@"
cat /proc/self/autogroup 2>/dev/null
"""


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """What runs a Java that tells its niceness, its options and its session's weight."""
    real = tmp_path / "real java"
    real.write_text(SAYS_HOW)
    real.chmod(0o755)
    return shim(real, tmp_path / "home") / "bin" / "java"


def test_s43_no_other_account_can_replace_what_is_run(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        home = shim(tmp_path / "java", tmp_path / "made" / "home")
    finally:
        os.umask(before)
    made = [tmp_path / "made", *(tmp_path / "made").rglob("*")]
    assert home / "bin" / "java" in made
    assert [path for path in made if path.stat().st_mode & 0o077] == []


# Stands for a JVM: it takes an archive that is whole.
JVM = """
for option; do
  case "$option" in -XX:SharedArchiveFile=*) archive="${option#*=}" ;; esac
done
[ "$(cat "$archive")" = "all the classes" ]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spark"


def chosen(folder: Path, *depends: str) -> ClassArchive:
    return class_archive(folder.parent / "java", depends, folder)


@pytest.fixture
def left(folder: Path) -> Path:
    """What the JVM of the first session has left."""
    launch(folder.parent, JVM)
    first = chosen(folder)
    assert first.written is not None
    assert first.options[-1] == f"-XX:ArchiveClassesAtExit={first.written}"
    first.note("spark.jar")
    first.written.write_text("all the classes")
    return first.written


def test_the_second_session_uses_what_the_first_has_left(folder: Path, left: Path) -> None:
    second = chosen(folder)
    assert second.written is None
    (option,) = [option for option in second.options if option.startswith("-XX:SharedArchiveFile=")]
    assert [*folder.iterdir()] == [Path(option.partition("=")[2])]
    assert chosen(folder) == second, "and so does the third"
