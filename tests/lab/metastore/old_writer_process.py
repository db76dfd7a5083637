"""A writer by the protocol that ksqlDB had before transactions, in a process of its own.

It validates a statement against what its reader has applied, then produces it: what others wrote
meanwhile it learns too late. What became of each statement is one JSON line on stdout.
"""

from __future__ import annotations

import random
import sys
import time

from confluent_kafka import Producer

from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.metastore.log.reader import CommandLog
from breakglass.services.metastore.log.validator import NameValidator, Planned, StatementRejected
from breakglass.services.session import ReadAccess
from tests.lab.metastore.writer_process import statement, tell

SECONDS = 30.0


def main(bootstrap: str, service: str, writer: int, seconds: float) -> None:
    """Submit for *seconds*."""
    access = ReadAccess(connection_settings(ConnectionOptions(bootstrap_server=bootstrap), {}))
    connection = {"bootstrap.servers": bootstrap}
    producer = Producer({**connection, "acks": "all", "linger.ms": 0})
    validator = NameValidator(lambda _: True)
    choose = random.Random()
    ends = time.monotonic() + seconds
    with CommandLog(access, connection, service) as log:
        while time.monotonic() < ends:
            text = statement(choose.randrange(5), writer, drop=choose.random() < 0.5)
            log.catch_up(Deadline.after(SECONDS))
            try:
                told = validator.validate(text, log.metastore.snapshot(), {})
            except StatementRejected:
                tell({"result": "rejected", "writer": writer, "text": text})
                continue
            assert isinstance(told, Planned)
            producer.produce(log.topic, key=told.id.to_json(), value=told.value, partition=0)
            assert producer.flush(SECONDS) == 0
            tell({"result": "committed", "writer": writer, "text": text})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
