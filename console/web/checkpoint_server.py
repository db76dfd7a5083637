"""Serves checkpoints over HTTP until a signal: who may ask, and how it stops.

The first signal ends the server between two steps: requests under way are answered, partitions
under way are copied to their end, and the rest is left to be resumed. A second signal ends it at
once, which loses nothing either: a copy counts only once its manifest is written.

Checkpoints over HTTP: Zeebe's paths, codes and JSON (``/actuator/backups``).

Sources: BackupEndpoint of camunda/zeebe 8.6. What Zeebe has no word for: every request brings the
token, and a server without permission to write takes and deletes nothing.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

from aiohttp import hdrs, web

from breakglass.console.output import say
from breakglass.console.web.listener import (
    SIGNALS,
    WITHOUT_TOKEN,
    Handler,
    HttpListener,
    bears,
    serve_until_signal,
)
from breakglass.services import patience
from breakglass.services.checkpoint.coordinator import Coordinator
from breakglass.services.checkpoint.metrics import CONTENT_TYPE, exposition
from breakglass.services.checkpoint.protocol.values import LARGEST_ID, NotHigher, Status
from breakglass.services.checkpoint.serving import Counts, Serving
from breakglass.services.checkpoint.wording import level_of, promise
from breakglass.services.checkpoint.zeebe_api import (
    BACKUPS,
    LEVEL_HEADER,
    PROMISE_HEADER,
    backup_info,
    description,
    state_of,
)
from breakglass.services.errors import (
    BreakglassError,
    ClusterError,
    OutcomeUnknown,
    Refused,
    StorageError,
    TimedOut,
    Unreachable,
    UsageError,
)
from breakglass.services.lag import Behind
from breakglass.services.topic_backup.manifest import tool_version

LARGEST = 4096
"""Bytes of a request's body: it holds one number."""
LONGEST_KEY = 200
LOOPBACK = "127.0.0.1"
NO_ID = "A backupId must be provided and it must be > 0"
STATUSES: tuple[tuple[type[BreakglassError], int], ...] = (
    (UsageError, 400),
    (Refused, 409),
    (TimedOut, 504),
    (OutcomeUnknown, 504),
    (Unreachable, 502),
    (ClusterError, 502),
    (StorageError, 503),
    (BreakglassError, 500),
)
"""What each error is answered with, the first that fits."""
T = TypeVar("T")


class HttpFailure(Exception):
    """A request ends with this status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class CheckpointApi:
    """Answers requests for *checkpoints* that bring *token*; *writable*: takes and deletes too."""

    def __init__(
        self,
        checkpoints: Coordinator | Serving,
        token: str,
        *,
        writable: bool,
        version: str = "unknown",
        errors: Callable[[], Counts] | None = None,
        behind: Callable[[], Behind | None] = lambda: None,
    ) -> None:
        self._checkpoints, self._token = checkpoints, token
        self._writable, self._version, self._errors = writable, version, errors
        self._behind = behind
        self._answered: Counter[tuple[str, int]] = Counter()
        self._changing = asyncio.Lock()

    def application(self) -> web.Application:
        application = web.Application(middlewares=[self._answer], client_max_size=LARGEST)
        backup = f"{BACKUPS}/{{id}}"
        application.add_routes(
            [
                web.get(BACKUPS, self._list, name="list"),
                web.post(BACKUPS, self._take, name="take"),
                web.get(backup, self._status, name="status"),
                web.delete(backup, self._delete, name="delete"),
                web.get("/metrics", self._metrics, name="metrics"),
                web.get("/openapi.json", self._description, name="openapi"),
            ]
        )
        return application

    @web.middleware
    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if not bears(request, self._token):
                raise HttpFailure(401, WITHOUT_TOKEN)
            response = await handler(request)
        except HttpFailure as answer:
            response = _error(answer.status, answer.message)
        except web.HTTPException as error:
            response = _error(error.status, error.reason)
            if isinstance(error, web.HTTPMethodNotAllowed):
                response.headers[hdrs.ALLOW] = ", ".join(sorted(error.allowed_methods))
        except BreakglassError as error:
            status = next(status for kind, status in STATUSES if isinstance(error, kind))
            response = _error(status, str(error))
        if response.status == 401:
            response.headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
        # The route's own name: nothing that a client chooses becomes a label.
        self._answered[request.match_info.route.name or "other", response.status] += 1
        return response

    async def _list(self, _: web.Request) -> web.Response:
        found = await asyncio.to_thread(self._checkpoints.all)
        return web.json_response([backup_info(checkpoint, brief=True) for checkpoint in found])

    async def _status(self, request: web.Request) -> web.Response:
        id = _path_id(request)
        found = await asyncio.to_thread(self._checkpoints.status, id)
        if found is None or state_of(found) is Status.DOES_NOT_EXIST:
            raise HttpFailure(404, f"Backup with id {id} does not exist")
        told = {LEVEL_HEADER: level_of(found), PROMISE_HEADER: promise(found)}
        return web.json_response(backup_info(found), headers=told)

    async def _take(self, request: web.Request) -> web.Response:
        id = await _body_id(request)
        key = request.headers.get("Idempotency-Key")
        if key is not None and not 0 < len(key) <= LONGEST_KEY:
            raise HttpFailure(400, f"An Idempotency-Key has up to {LONGEST_KEY} characters")
        found = await self._change(lambda: self._checkpoints.take(id, key))
        if isinstance(found, NotHigher):
            raise HttpFailure(409, found.message)
        message = (
            f"A backup with id {id} has been scheduled. "
            f"Use GET actuator/backups/{id} to monitor the status."
        )
        return web.json_response({"message": message}, status=202)

    async def _delete(self, request: web.Request) -> web.Response:
        id = _path_id(request)
        await self._change(lambda: self._checkpoints.delete(id))
        return web.Response(status=204)

    async def _change(self, change: Callable[[], T]) -> T:
        """One at a time: ids increase in the order in which they were asked for."""
        if not self._writable:
            raise HttpFailure(403, "This server changes nothing: start it with --write")
        async with self._changing:
            return await asyncio.to_thread(change)

    async def _metrics(self, _: web.Request) -> web.Response:
        found = await asyncio.to_thread(self._checkpoints.all)
        errors = self._errors() if self._errors else None
        body = exposition(found, self._answered, errors, self._behind())
        return web.Response(body=body, headers={hdrs.CONTENT_TYPE: CONTENT_TYPE})

    async def _description(self, _: web.Request) -> web.Response:
        return web.json_response(description(self._version))


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"message": message}, status=status)


def _path_id(request: web.Request) -> int:
    text = request.match_info["id"]
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 20 and int(text) <= LARGEST_ID):
        raise HttpFailure(400, "A backupId is an integer")
    return int(text)


async def _body_id(request: web.Request) -> int:
    """The id that is asked for; as Zeebe, digits in a string are a number too."""
    if request.content_type != "application/json":
        raise HttpFailure(415, "Send the backupId as JSON: Content-Type: application/json")
    try:
        # One that never comes would keep a server that is stopped waiting for it.
        async with asyncio.timeout(patience.REQUEST):
            text = await request.text()
        body: Any = json.loads(text)
    except TimeoutError:
        seconds = f"{patience.REQUEST:g} s"
        raise HttpFailure(408, f"The body has not arrived within {seconds}") from None
    except LookupError:
        raise HttpFailure(
            415, "Send the backupId as UTF-8: the charset is not known here"
        ) from None
    except (ValueError, RecursionError):
        raise HttpFailure(400, NO_ID) from None
    id = body.get("backupId") if isinstance(body, dict) else None
    if isinstance(id, str) and id.isascii() and id.isdigit() and len(id) < 20:
        id = int(id)
    if type(id) is not int or not 0 < id <= LARGEST_ID:
        raise HttpFailure(400, NO_ID)
    return id


ANSWER_SECONDS = patience.START + patience.COMMAND
"""How long a request that is under way may take to be answered after a signal."""


def serve_checkpoints(
    serving: Serving, token: str, listener: HttpListener, *, writable: bool
) -> None:
    """Serve until a signal. Raises UsageError where it cannot listen."""
    api = CheckpointApi(
        serving,
        token,
        writable=writable,
        version=tool_version(),
        errors=serving.troubles.counts if writable else None,
        behind=lambda: serving.lag.now,
    )
    with serving.running() if writable else nullcontext():
        asyncio.run(_until_a_signal(api, serving, listener))


async def _until_a_signal(api: CheckpointApi, serving: Serving, listener: HttpListener) -> None:
    loop = asyncio.get_running_loop()

    def stopping() -> None:
        say(
            "stopping: requests and partitions under way are ended first; a second signal ends "
            "the server at once"
        )
        for number in SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
        serving.stop()

    await serve_until_signal(
        api.application(),
        listener,
        lambda port: say(f"Serving {listener.url(port, BACKUPS)}"),
        stopping,
        ANSWER_SECONDS,
    )
