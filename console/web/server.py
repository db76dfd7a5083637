"""The server behind `breakglass serve`: one page, and for each that is open one read-only console.

The page and the protocol are textual-serve's; who may connect, how a console is started and how
all of it ends is decided here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import textual_serve
from aiohttp import WSMsgType, hdrs, web
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager
from typing_extensions import override

from breakglass.console.output import say
from breakglass.console.web.listener import Handler, HttpListener, bears

SESSIONS = 8
"""Open at once; each holds its own connections to the brokers."""
END_SECONDS = 2.0
"""For each step of a console's end: when it is asked to, before it is killed, for its pipes."""
SHUTDOWN_SECONDS = 4 * END_SECONDS
"""For all consoles, which end side by side; what is left then would outlive the server."""
LARGEST = 64 * 1024
"""Bytes of a message from a browser: a paste, at most."""
SIZES = range(1, 1001)
STATIC = Path(textual_serve.__file__).parent / "static"
PAGE = Path(__file__).parent / "page.html"
SCRIPT = PAGE.with_suffix(".js")


class Session(AppService):
    """One console, in a process of its own."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], to: web.WebSocketResponse):
        super().__init__(
            command[0],
            write_bytes=to.send_bytes,
            write_str=to.send_str,
            close=lambda: _closed(to),
            download_manager=DownloadManager(),
        )
        self._words, self._env = command, env

    @override
    async def _open_app_process(
        self, width: int = 80, height: int = 24
    ) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *self._words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**self._build_environment(width, height), **self._env},
        )
        self._process, self._stdin = process, process.stdin
        return process

    async def end(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stop(), END_SECONDS)
        if self._process is not None:
            await _ended(self._process)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Wait until it has ended; kill it if it does not.

    Not at once: a signal to a process that has just ended takes its exit status away from the
    event loop, which complains on stderr.
    """
    try:
        await asyncio.wait_for(process.wait(), END_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    # It is over for the event loop once nothing is left in its pipes.
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.communicate(), END_SECONDS)


class Dashboard:
    """Answers browsers; *command* is run for each page."""

    def __init__(self, access: Access, command: Sequence[str], env: Mapping[str, str], title: str):
        self._access, self._command, self._env, self._title = access, command, env, title
        self._open: dict[str, web.WebSocketResponse] = {}
        """By the key of their page, which opens one."""
        self._ending: set[asyncio.Task[None]] = set()
        """Consoles that are asked to end."""

    def application(self) -> web.Application:
        application = web.Application(middlewares=[self._access.middleware])
        application.add_routes(
            [
                web.get("/", partial(_file, PAGE)),
                web.get("/page.js", partial(_file, SCRIPT)),
                web.post("/session", self._session),
                web.get("/ws", self._websocket),
                web.static("/static", STATIC),
            ]
        )
        application.on_shutdown.append(self._close_all)
        application.on_cleanup.append(self._wait_for_all)
        return application

    async def _session(self, request: web.Request) -> web.Response:
        key = self._access.new_key(request)
        return web.json_response({"key": key, "title": self._title})

    async def _websocket(self, request: web.Request) -> web.WebSocketResponse:
        key = self._access.key_of(request)
        if key in self._open:
            raise web.HTTPConflict(text="This page has a console.")
        if len(self._open) >= SESSIONS:
            raise web.HTTPServiceUnavailable(text=f"{SESSIONS} pages are open already.")
        websocket = web.WebSocketResponse(heartbeat=15, max_msg_size=LARGEST, protocols=(PROTOCOL,))
        self._open[key] = websocket
        session = Session(self._command, self._env, websocket)
        try:
            await websocket.prepare(request)
            await session.start(*(_size(request.query.get(name)) for name in ("width", "height")))
            await _relay(websocket, session)
        finally:
            del self._open[key]
            # A handler is cancelled when the server ends; its console is waited for all the same.
            ending = asyncio.create_task(session.end())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            await asyncio.shield(ending)
        return websocket

    async def _close_all(self, _: web.Application) -> None:
        for websocket in tuple(self._open.values()):
            await websocket.close()

    async def _wait_for_all(self, _: web.Application) -> None:
        await asyncio.gather(*self._ending, return_exceptions=True)


async def _file(path: Path, _: web.Request) -> web.FileResponse:
    return web.FileResponse(path)


async def _closed(websocket: web.WebSocketResponse) -> None:
    await websocket.close()


async def _relay(websocket: web.WebSocketResponse, session: Session) -> None:
    """What a browser sends, to the console; anything else ends the session."""
    async for message in websocket:
        if message.type != WSMsgType.TEXT:
            continue
        try:
            kind, *content = json.loads(message.data)
            if kind == "stdin":
                await session.send_bytes(content[0].encode("utf-8", "replace"))
            elif kind == "resize":
                width, height = (_size(content[0][name]) for name in ("width", "height"))
                await session.set_terminal_size(width, height)
            elif kind == "ping":
                await websocket.send_json(["pong", content[0]])
            elif kind == "focus":
                await session.focus()
            elif kind == "blur":
                await session.blur()
        except (ValueError, TypeError, AttributeError, LookupError):
            say("A browser sent what its page does not send; its session was ended.")
            return


def _size(said: object) -> int:
    """Columns or rows; what makes no sense is 80."""
    try:
        size = int(said) if isinstance(said, str | int) else 0
    except ValueError:
        size = 0
    return size if size in SIZES else 80


PROTOCOL = "breakglass"
"""The websocket's protocol; the key of the page is named beside it."""
WHY = "Type the token that `breakglass serve` printed, or that who runs it chose."
ELSEWHERE = "Open the dashboard's own page."
KEYS = 64
"""Pages that are known at once: open ones, and ones that may be loaded again."""


class Access:
    """What a request has to bring; *names*: hosts by which browsers reach the dashboard."""

    def __init__(
        self,
        listener: HttpListener,
        token: str,
        names: tuple[str, ...] = (),
        *,
        behind_tls: bool = False,
    ) -> None:
        self.listener, self._token = listener, token
        self._names = {name.casefold() for name in (*names, listener.host, "localhost")}
        self._https = behind_tls or listener.tls is not None
        """TLS ends here, or at a proxy in front: browsers use https and wss alone."""
        self._keys: dict[str, None] = {}
        """Of pages, the oldest first."""

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer requests for this host: a name that leads here may be anybody's."""
        try:
            name = urlsplit(f"//{request.host}").hostname or ""
            # No name server has a say in an address.
            ours = name in self._names or bool(ip_address(name))
        except ValueError:
            ours = False
        if not ours:
            raise web.HTTPMisdirectedRequest(
                text="This name is not one of the dashboard's: start it with --allowed-host."
            )
        return await handler(request)

    def new_key(self, request: web.Request) -> str:
        """The key of a page that brings the token, or the key of its last loading, which ends.

        Raises:
            web.HTTPException: it is another site's page, or brings neither.
        """
        self.require_own_page(request)
        known = next((key for key in self._keys if bears(request, key)), None)
        if known is None and not bears(request, self._token):
            raise web.HTTPUnauthorized(text=WHY)
        for ended in (known, *list(self._keys)[: len(self._keys) - KEYS + 1]):
            self._keys.pop(ended or "", None)
        key = secrets.token_urlsafe(24)
        self._keys[key] = None
        return key

    def key_of(self, request: web.Request) -> str:
        """The key that a websocket brings. Raises web.HTTPException where it brings none."""
        self.require_own_page(request)
        offered = request.headers.get(hdrs.SEC_WEBSOCKET_PROTOCOL, "").split(",")
        given = {one.strip() for one in offered}
        for key in self._keys:
            if key in given:
                return key
        raise web.HTTPForbidden(text=WHY)

    def require_own_page(self, request: web.Request) -> None:
        """Return if the page that this server has sent asks; raises web.HTTPForbidden if not."""
        scheme = "https" if self._https else "http"
        if request.headers.get(hdrs.ORIGIN, "") != f"{scheme}://{request.host}":
            raise web.HTTPForbidden(text=ELSEWHERE)
