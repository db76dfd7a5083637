"""Chromium without a window, told what to do by the DevTools protocol."""

import asyncio
import itertools
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientWebSocketResponse

from tests.kit.extent import missing
from tests.kit.waiting import DEADLINE_SECONDS

LOOK_SECONDS = 0.05
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--remote-debugging-port=0", "--window-size=1000,700", "about:blank"),
)
# The page keeps its terminal to itself; it is seen at the moment it is furnished.
FIND_TERMINAL = """
Object.defineProperty(Object.prototype, "fitAddon", {
  configurable: true,
  set(addon) {
    window.shown = this.terminal;
    Object.defineProperty(this, "fitAddon", {value: addon, writable: true});
  },
});
"""
READ_TERMINAL = """
(() => {
  if (!window.shown) return [];
  const buffer = window.shown.buffer.active;
  return Array.from({length: window.shown.rows}, (_, row) =>
    buffer.getLine(buffer.viewportY + row)?.translateToString(true) ?? "");
})()
"""
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "ArrowDown": (40, ""), "ArrowUp": (38, "")}


class Page:
    """One tab."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)

    async def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol; events that come meanwhile are dropped."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            answer = await self._socket.receive_json(timeout=DEADLINE_SECONDS)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    async def open(self, url: str) -> None:
        await self.call("Page.addScriptToEvaluateOnNewDocument", source=FIND_TERMINAL)
        await self.call("Page.navigate", url=url)

    async def evaluate(self, script: str) -> Any:
        told = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def lines(self) -> list[str]:
        lines: list[str] = await self.evaluate(READ_TERMINAL)
        return [line.rstrip() for line in lines]

    async def until(self, so: Callable[[list[str]], object], what: str) -> list[str]:
        """Wait until *so* is true of the lines that are shown; returns them."""
        shown: list[str] = []

        async def look() -> object:
            shown[:] = await self.lines()
            return so(shown)

        await _until(look, lambda: f"{what}\n" + "\n".join(shown))
        return shown

    async def until_true(self, script: str, what: str) -> None:
        await _until(lambda: self.evaluate(script), lambda: what)

    async def wait_for(self, text: str) -> list[str]:
        return await self.until(lambda lines: text in "\n".join(lines), repr(text))

    async def press(self, *keys: str) -> None:
        """Press *keys*: single characters, ``ctrl+r``, or the browser's own names."""
        for key in keys:
            await self._press(key)

    async def enter(self, token: str) -> None:
        """Type *token* where the dashboard's page asks for it."""
        await self.until_true("document.activeElement?.type === 'password'", "the question")
        await self.press(*token, "Enter")

    async def _press(self, key: str) -> None:
        control = key.startswith("ctrl+")
        name = key.removeprefix("ctrl+")
        code, text = KEYS.get(name, (ord(name[-1].upper()), name))
        event = {
            "key": name,
            "code": f"Key{name.upper()}" if name.isalpha() and len(name) == 1 else name,
            "windowsVirtualKeyCode": code,
            "modifiers": 2 if control else 0,
        }
        typed = {} if control or not text else {"text": text}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **event, **typed)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **event)


def chromium() -> str:
    """The browser's program; without one the test is skipped, but never in CI."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        missing("needs Chromium: apt-get install chromium")
    return found


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Page]:
    """A browser with one page, its profile in *folder*; it ends with the context."""
    process = await asyncio.create_subprocess_exec(
        chromium(),
        f"--user-data-dir={folder}",
        *OPTIONS,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        file = folder / "DevToolsActivePort"

        async def written() -> bool:
            return file.exists() and len(file.read_text().splitlines()) == 2

        await _until(written, lambda: "the port of Chromium")
        port = int(file.read_text().splitlines()[0])
        async with ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                pages = [one for one in await answer.json() if one["type"] == "page"]
            address = pages[0]["webSocketDebuggerUrl"]
            async with session.ws_connect(address, max_msg_size=0) as socket:
                page = Page(socket)
                await page.call("Page.enable")
                yield page
    finally:
        process.terminate()
        await process.wait()


async def _until(so: Callable[[], Awaitable[object]], what: Callable[[], str]) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while not await so():
        assert time.monotonic() < end, f"waited {DEADLINE_SECONDS:.0f} s in vain: {what()}"
        await asyncio.sleep(LOOK_SECONDS)
