"""Dashboards on canned incidents, and a browser to see them in."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from breakglass.console.web.listener import serve_until
from breakglass.console.web.server import SHUTDOWN_SECONDS, Access, Dashboard
from tests.screens.turns import keys_without_clocks
from tests.web.browser import Page, browser

__all__ = ["keys_without_clocks"]

CANNED = (sys.executable, "-m", "tests.web.full_console")

ServeDashboard = Callable[..., Awaitable[int]]


@pytest.fixture
async def serve_dashboard(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ServeDashboard]:
    """Serves a dashboard of consoles by a command to who has that access; returns the port."""
    monkeypatch.chdir(Path(__file__).parents[2])
    stop = asyncio.Event()
    served: list[asyncio.Task[None]] = []

    async def start(access: Access, command: Sequence[str] = CANNED) -> int:
        application = Dashboard(access, command, {}, "Breakglass <canned>").application()
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        serving = serve_until(application, access.listener, stop, port.set_result, SHUTDOWN_SECONDS)
        served.append(asyncio.create_task(serving))
        return await port

    yield start
    stop.set()
    await asyncio.gather(*served)


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    async with AsyncExitStack() as opened:
        yield await opened.enter_async_context(browser(tmp_path / "browser"))
