"""The messages that read a cluster: parsed without others, and the same as kafka-python's own."""

import subprocess
import sys
from pathlib import Path

import pytest
from kafka.protocol import admin, consumer

from benchmarks._incident import tell
from breakglass.services.errors import MalformedMessage
from breakglass.services.kafka.wire.messages import reading
from breakglass.services.kafka.wire.messages.message import decode_exactly
from tests.kit.fake_cluster import FakeCluster

ROOT = Path(__file__).parents[5]
COUNT = 60
MESSAGES = [name for name in vars(reading) if name.endswith(("Request", "Response"))]
CHANGED_BY_KAFKA_PYTHON = {"DescribeClusterResponse", "ListOffsetsRequest"}
"""A field has another name there, or a default; here neither is used."""
READING = """
import sys
from pathlib import Path

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.incident.watch import IncidentWatch
from breakglass.services.session import ReadAccess

host, port, folder = sys.argv[1:]
access = ReadAccess(ConnectionSettings((Endpoint(host, int(port)),)))
watch = IncidentWatch(access, duration=300.0, state_folder=Path(folder))
next(incident for incident in watch.read() if incident.judged)
watch.close()
print(sorted({"kafka.protocol.admin", "kafka.protocol.consumer"} & sys.modules.keys()))
"""


def test_the_first_verdicts_wait_for_no_schemas_of_other_messages(tmp_path: Path) -> None:
    with FakeCluster() as cluster:
        tell(cluster, COUNT)
        broker = cluster.brokers[1].endpoint
        command = [sys.executable, "-c", READING, broker.host, str(broker.port), str(tmp_path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_an_array_that_cannot_be_null_is_refused_where_it_is() -> None:
    kind = reading.ListGroupsResponse
    for version, head in ((0, b"\0\0"), (4, bytes(6))):
        null, empty = (b"\xff" * 4, bytes(4)) if version == 0 else (b"\0\0", b"\1\0")
        assert decode_exactly(kind, head + empty, version).groups == []
        with pytest.raises(MalformedMessage):
            decode_exactly(kind, head + null, version)


def test_each_message_is_the_one_of_kafka_python() -> None:
    for name in MESSAGES:
        ours, theirs = getattr(reading, name), {**vars(admin), **vars(consumer)}[name]
        assert (ours.API_KEY, ours.valid_versions) == (theirs.API_KEY, theirs.valid_versions)
        assert name in CHANGED_BY_KAFKA_PYTHON or ours.json == theirs.json, name
