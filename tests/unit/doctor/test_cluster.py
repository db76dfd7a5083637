"""What librdkafka makes of brokers is asked in another process, whose end is a sentence."""

import random
import subprocess
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from breakglass.services.doctor.cluster import ends_asked
from breakglass.services.model import Unknown
from tests.kit.fake_broker import Body, FakeBroker

CRASHED = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"


def test_s25_a_crash_of_librdkafka_is_a_sentence_of_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    run = subprocess.run
    environments = []

    def crashed(command: list[str], **options: Any) -> Any:
        environments.append(options["env"])
        return run([command[0], "-c", CRASHED], **options)

    monkeypatch.setattr(subprocess, "run", crashed)
    monkeypatch.setenv("AWS_SESSION", "x")
    monkeypatch.setenv("MY_BACKUP_KEY", "x")
    found = ends_asked({"bootstrap.servers": "127.0.0.1:1"})
    assert isinstance(found, Unknown)
    assert "SIGSEGV" in found.reason
    assert not {"AWS_SESSION", "MY_BACKUP_KEY"} & environments[0].keys()


def test_s25_bytes_that_are_not_kafkas_are_no_end_of_doctor() -> None:
    choose = random.Random(37)
    with FakeBroker() as broker:
        broker.serve(MetadataRequest, lambda _: Body(choose.randbytes(200)))
        found = ends_asked({"bootstrap.servers": str(broker.endpoint), "socket.timeout.ms": 1000})
    assert isinstance(found, Unknown)
