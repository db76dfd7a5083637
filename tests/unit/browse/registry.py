"""A schema registry on loopback: the paths of its API that a reader of schemas asks for."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Answers = Mapping[str, Mapping[str, Any]]
"""Bodies by path and query: ``/schemas/ids/1``, ``/schemas/ids/2?format=serialized``."""


@contextmanager
def registry(answers: Answers) -> Iterator[str]:
    """Serve *answers*; the URL. What is not among them is not found, as a registry says it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            form = parse_qs(asked.query).get("format", [""])[0]
            found = answers.get(f"{asked.path}?format={form}" if form else asked.path)
            missing = {"error_code": 40403, "message": "Schema not found"}
            body = json.dumps(missing if found is None else found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
