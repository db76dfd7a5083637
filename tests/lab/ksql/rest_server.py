"""A stand-in for a ksqlDB server: /info and /ksql over HTTP, commands by real transactions.

It answers as KsqlResource and DistributingExecutor do, and `Fault` says where it breaks off.
"""

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.statements.parsing import parse
from tests.lab.ksql.topics import CommandTopic

USER, PASSWORD = "operator", "secret"
COULD_NOT = "Could not write the statement into the command topic."


class Fault(Enum):
    """How the server misbehaves."""

    NONE = auto()
    INVALID = auto()
    """The statement fails validation."""
    FENCED = auto()
    """Another writer takes the id: the transaction ends without the command."""
    FENCED_LATE = auto()
    """The commit is reported as failed, and the command is there (M1)."""
    SILENT_BEFORE = auto()
    """The connection ends before anything is written."""
    SILENT_AFTER = auto()
    """The connection ends when the command is written."""
    LIES = auto()
    """The answer names an offset that has no such command."""
    FAILS = auto()
    """The command is written, and cannot be executed."""
    NEEDLESS = auto()
    """IF NOT EXISTS, and it exists."""


class Request(NamedTuple):
    """What was asked for."""

    path: str
    body: dict[str, Any]
    authorization: str | None


class RestServer:
    """One server of a service."""

    def __init__(self, topic: CommandTopic, fault: Fault, service_id: str | None) -> None:
        self.topic = topic
        self.fault = fault
        self.service_id = service_id or topic.service_id
        self.requests: list[Request] = []
        self.address = ""

    def info(self) -> dict[str, Any]:
        return {
            "KsqlServerInfo": {
                "version": "0.29.0",
                "kafkaClusterId": self.topic.cluster.layout.cluster_id,
                "ksqlServiceId": self.service_id,
                "serverStatus": "RUNNING",
            }
        }

    def ksql(self, statement: str) -> tuple[int, Any] | None:
        """The answer to *statement*; None ends the connection."""
        if self.fault is Fault.SILENT_BEFORE:
            return None
        if self.fault is Fault.INVALID:
            return 400, _error(40001, "Line: 1, Col: 15: no viable alternative", statement)
        if self.fault is Fault.NEEDLESS:
            return 200, [{"@type": "warning_entity", "message": "Cannot add stream A: exists."}]
        key = parse(statement).command_id
        # The command; its plan, with the query, is the server's business and left out.
        value = {"statement": statement, "streamsProperties": {}, "version": 18}
        record = CommandRecord(0, key.to_json(), json.dumps(value).encode(), None)
        if self.fault is Fault.FENCED:
            self.topic.abort([record])
            return 500, _error(50000, COULD_NOT, statement)
        (written,) = self.topic.produce([record])
        if self.fault is Fault.SILENT_AFTER:
            return None
        if self.fault is Fault.FENCED_LATE:
            return 400, _error(40001, COULD_NOT, statement)
        failed = self.fault is Fault.FAILS
        status = {
            "status": "ERROR" if failed else "SUCCESS",
            "message": "no such function" if failed else "Stream created",
            "queryId": None,
        }
        return 200, [
            {
                "@type": "currentStatus",
                "statementText": statement,
                "commandId": str(key),
                "commandStatus": status,
                "commandSequenceNumber": written.offset + (self.fault is Fault.LIES),
                "warnings": [],
            }
        ]


def _error(code: int, message: str, statement: str) -> dict[str, Any]:
    return {
        "@type": "statement_error",
        "error_code": code,
        "message": message,
        "statementText": statement,
        "entities": [],
    }


@contextmanager
def rest_server(
    topic: CommandTopic,
    fault: Fault = Fault.NONE,
    *,
    service_id: str | None = None,
    certificate: Path | None = None,
) -> Iterator[RestServer]:
    """The server on loopback; with TLS where *certificate* is given."""
    server = RestServer(topic, fault, service_id)
    expected = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve({}, lambda: (200, server.info()))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._serve(body, lambda: server.ksql(body["ksql"]))

        def _serve(self, body: dict[str, Any], made: Callable[[], tuple[int, Any] | None]) -> None:
            given = self.headers.get("Authorization")
            server.requests.append(Request(self.path, body, given))
            wrong = given not in (None, expected)
            answer = (401, _error(40100, "Unauthorized", "")) if wrong else made()
            if answer is None:
                self.close_connection = True
                return
            content = json.dumps(answer[1]).encode()
            self.send_response(answer[0])
            self.send_header("Content-Type", "application/vnd.ksql.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as listening:
        scheme = "http"
        if certificate is not None:
            scheme, context = "https", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            listening.socket = context.wrap_socket(listening.socket, server_side=True)
        server.address = f"{scheme}://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()
