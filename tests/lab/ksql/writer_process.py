"""A writer in a process of its own: submits statements until its stdin ends, or it is killed.

Each writer wants the same names as all others, so most statements conflict. What became of each is
one JSON line on stdout, written before the next one begins.
"""

import json
import random
import sys
from threading import Event, Thread

from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.errors import BreakglassError, OutcomeUnknown
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.metastore.log.reader import CommandLog
from breakglass.services.metastore.log.validator import NameValidator, StatementRejected
from breakglass.services.metastore.log.writer import CommandWriter
from breakglass.services.session import Power, ReadAccess

SUBMIT_SECONDS = 120.0


def statement(name: int, writer: int, *, drop: bool) -> str:
    """One of two kinds, about one of few names."""
    if drop:
        return f"DROP STREAM S{name};"
    columns = f"(ID INT KEY, W{writer} STRING)"
    return f"CREATE STREAM S{name} {columns} WITH (KAFKA_TOPIC='events', VALUE_FORMAT='JSON');"


def main(bootstrap: str, service: str, writer: int) -> None:
    """Submit until stdin is closed."""
    access = ReadAccess(connection_settings(ConnectionOptions(bootstrap_server=bootstrap), {}))
    choose = random.Random()
    over = Event()

    def listen() -> None:
        sys.stdin.read()
        over.set()

    Thread(target=listen, daemon=True).start()
    with access.reading() as client:
        cluster_id = client.describe(Deadline.after(SUBMIT_SECONDS)).cluster_id
    with CommandLog(access, service) as log, Power(access).records(cluster_id) as records:
        made = CommandWriter(log, records, NameValidator(lambda _: True))
        while not over.is_set():
            text = statement(choose.randrange(5), writer, drop=choose.random() < 0.5)
            # One line.
            sys.stdout.write(
                json.dumps(_submitted(made, text) | {"writer": writer, "text": text}) + "\n"
            )
            sys.stdout.flush()


def _submitted(writer: CommandWriter, text: str) -> dict[str, object]:
    try:
        done = writer.submit(text, seconds=SUBMIT_SECONDS)
    except StatementRejected:
        return {"result": "rejected"}
    except OutcomeUnknown as error:
        return {"result": "unknown", "why": str(error)}
    except BreakglassError as error:
        return {"result": "failed", "why": f"{type(error).__name__}: {error}"}
    return {"result": "committed", "offset": done.offset}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
