"""The console on a terminal: Textual's driver, made to survive what befalls one in an incident.

Textual's own ends in a traceback or a full queue when the terminal goes away, starts a second
reader on SIGCONT, and stops one process of a group. Here a lost terminal ends the session in
order, one that takes nothing costs frames and never the keyboard, and Ctrl+Z is the shell's.
What is written to the terminal never raises, and at the end never waits for long.

Textual draws on the terminal, and so would a native library that reports a lost connection on file
descriptor 2. While the console draws, that descriptor leads into a file of the state folder; the
operator is informed of the file at the end if anything came.

One key at a time: the next one waits until what the last one did has been done. Textual hands each
key to the widget that has the focus at that moment, and over a slow link a whole word comes in one
packet: the `e` of `/orders` would be a command of the list before the filter has the focus.

Keys that arrive in pieces over a slow link: an arrow is one key or none, never its letters.

A terminal sends Down as Esc, `[`, `B`. Esc alone is a key; if the others come later, they would be
typed into a phrase, or be commands: after Esc they are swallowed for a second. What begins with
Esc and `[` together is waited for as long, for no one key is sent so.
"""

from __future__ import annotations

import asyncio
import codecs
import concurrent.futures
import os
import queue
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, NoReturn, cast

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key
from textual.message import Message
from textual.message_pump import MessagePump
from typing_extensions import override

from breakglass.console.exits import INTERRUPTED, STDOUT
from breakglass.console.output import say
from breakglass.screens.messages import Interrupted

if TYPE_CHECKING:
    from textual.app import App
    from textual.driver import Driver

    from breakglass.console.app import BreakglassApp

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
THREAD_SECONDS = 0.4
"""For threads that only read; nothing waits longer for a broker that does not answer."""


def run_on_terminal(
    app: BreakglassApp,
    *,
    mouse: bool,
    state_folder: Path,
    typed: Callable[[], object] | None = None,
) -> int:
    """Run *app* until the operator leaves or a signal ends it; returns the exit code.

    *typed* is called for each key, in the thread that reads the keyboard.
    Threads that read may still wait for a broker then: `leave` ends the process without them.
    What failed without being expected is raised, once the terminal is as it was.
    """
    from rich.console import Console

    from breakglass.console.driver import ConsoleDriver

    stray = StrayOutput(state_folder)
    app.driver_class = cast("type[Driver]", partial(ConsoleDriver, stray=stray, typed=typed))
    app.error_console = Console(quiet=True)
    try:
        return run_in_loop(app, mouse=mouse)
    finally:
        told = stray.close()
        if told:
            say(told)


def run_in_loop(app: BreakglassApp, *, mouse: bool) -> int:
    """Run *app* with the driver it has, ended by signals; returns the exit code.

    What failed without being expected is raised.
    """
    with asyncio.Runner() as runner:
        runner.run(_run(app, mouse))
        if app.executor is not None:
            app.executor.shutdown(wait=False, cancel_futures=True)
        # A loop that is closed waits for its executor; this one has nothing to wait for.
        runner.get_loop().set_default_executor(ThreadPoolExecutor(1))
    if app._exception is not None:
        raise app._exception
    return app.return_code or 0


def leave(code: int) -> NoReturn:
    """End the process with *code*, whatever a thread that only reads still waits for."""
    if _still_running():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise SystemExit(code)


async def _run(app: BreakglassApp, mouse: bool) -> None:
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, app.post_message, Interrupted(INTERRUPTED))
    await app.run_async(mouse=mouse)


def _still_running() -> bool:
    """Whether a worker's thread still runs after the last moment it is given."""
    from breakglass.console.app import WORKER_NAME

    end = time.monotonic() + THREAD_SECONDS
    for thread in threading.enumerate():
        if thread.name.startswith(WORKER_NAME):
            thread.join(max(end - time.monotonic(), 0))
            if thread.is_alive():
                return True
    return False


STDERR = 2
FOLDER = "output"


class StrayOutput:
    """File descriptor 2, led aside and back again as often as the screen is left and shown."""

    def __init__(self, state_folder: Path) -> None:
        self._file = state_folder / FOLDER / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}.txt"
        self._aside: int | None = None
        """Where it is led, once opened."""
        self._before: int | None = None
        """What it was, while it is led aside."""

    def begin(self) -> None:
        if self._before is not None:
            return
        if self._aside is None:
            self._aside = self._opened()
        self._before = os.dup(STDERR)
        os.dup2(self._aside, STDERR)

    def end(self) -> None:
        if self._before is None:
            return
        os.dup2(self._before, STDERR)
        os.close(self._before)
        self._before = None

    def close(self) -> str:
        """End for good; returns what to tell the operator, or nothing if nothing came."""
        self.end()
        if self._aside is None:
            return ""
        written = os.fstat(self._aside).st_size
        os.close(self._aside)
        self._aside = None
        if written:
            return f"Libraries wrote {written:,} bytes while the console was open: {self._file}"
        self._file.unlink(missing_ok=True)
        return ""

    def _opened(self) -> int:
        """The file; nowhere, if there can be none."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            return os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError:
            return os.open(os.devnull, os.O_WRONLY)


ESC = "\x1b"
ESCAPE_SECONDS = 0.1
"""Esc that nothing has followed for so long is a key."""
PIECES_SECONDS = 1.0
"""The rest of a key may come so late."""
LONGEST = 64
LONGEST_PASTE = 4096
"""More is dropped: what is pasted goes into a field of one line, or is refused."""
PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"
LAST_LETTERS = frozenset("ABCDEFHMPQRS")
"""What follows Esc and `O` in keys that Kafka's operators have."""


BEGINNINGS = frozenset(("\x1b[", "\x1bO", "\x1b[["))
"""Of arrows, of function keys; of function keys on Linux's own terminal."""


def _is_inner(character: str, so_far: str) -> bool:
    """Whether after *character* more of the key is to come."""
    return " " <= character <= "?" and len(so_far) < LONGEST


def _whole_paste(text: str) -> str:
    """*text* with its end and without Esc, which would end it for the parser of keys."""
    return text.removesuffix(PASTE_ENDS).replace(ESC, "") + PASTE_ENDS


class KeyPieces:
    """Takes characters as they come, and hands on whole keys; for one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = ""
        """From Esc on, a key that is not whole yet."""
        self._at = 0.0
        """When that began, or when the last character of pieces came."""
        self._loose: str | None = None
        """After Esc alone: what came of the rest of a key; None: nothing is swallowed."""
        self._pasted: str | None = None
        """What is being pasted; None: nothing is. It is handed on as a whole, with its end: an Esc
        in it is no key, and the parser of keys has to see where it ends."""

    def feed(self, text: str) -> Iterator[str]:
        """What is whole by now; Esc alone is that key."""
        yield from self.tick()
        whole = ""
        for character in text:
            for piece in self._take(character):
                if piece == ESC:
                    if whole:
                        yield whole
                    whole = ""
                    yield ESC
                else:
                    whole += piece
        if whole:
            yield whole

    def tick(self) -> Iterator[str]:
        """What has waited long enough for its rest; to be called now and then."""
        waited = self._clock() - self._at
        if self._begun == ESC and waited >= ESCAPE_SECONDS:
            self._begun, self._loose = "", ""
            yield ESC
        elif self._begun and waited >= PIECES_SECONDS:
            self._begun = ""
        elif self._pasted is not None and waited >= PIECES_SECONDS:
            text, self._pasted = self._pasted, None
            yield _whole_paste(text)
        elif self._loose is not None and waited >= PIECES_SECONDS:
            yield from self._released()

    def _take(self, character: str) -> Iterator[str]:
        if self._pasted is not None:
            self._at = self._clock()
            text = self._pasted + character
            if len(text) > LONGEST_PASTE:
                text = text[: LONGEST_PASTE - len(PASTE_ENDS)] + text[-len(PASTE_ENDS) :]
            self._pasted = None if text.endswith(PASTE_ENDS) else text
            if self._pasted is None:
                yield _whole_paste(text)
        elif self._loose is not None:
            self._at = self._clock()
            if ESC + self._loose + character in BEGINNINGS:
                self._loose += character
            elif self._loose.startswith("[") and character != ESC:
                self._loose = self._loose + character if _is_inner(character, self._loose) else None
            elif self._loose == "O" and character in LAST_LETTERS:
                self._loose = None
            else:
                yield from self._released()
                yield from self._take(character)
        elif self._begun:
            yield from self._take_more(character)
        elif character == ESC:
            self._begun, self._at = ESC, self._clock()
        else:
            yield character

    def _take_more(self, character: str) -> Iterator[str]:
        """A character of the key that has begun."""
        begun, self._begun = self._begun, ""
        whole = begun + character
        if character == ESC:
            # What had begun is Esc alone, or will never be whole.
            if begun == ESC:
                yield ESC
            self._begun, self._at = ESC, self._clock()
        elif whole in BEGINNINGS or (begun.startswith("\x1b[") and _is_inner(character, whole)):
            self._begun, self._at = whole, self._clock()
        else:
            self._pasted = "" if whole == PASTE_BEGINS else None
            yield whole

    def _released(self) -> Iterator[str]:
        """Swallow no longer; an `O` that nothing followed was typed."""
        loose, self._loose = self._loose, None
        if loose == "O":
            yield loose


LAST_SECONDS = 0.5
"""For what is still to be written when the screen is left."""
LOOK_SECONDS = 0.1
"""How soon the end is noticed while no key is pressed; also tells Esc from a longer sequence."""
READ_SIZE = 4096


class ConsoleDriver(LinuxDriver):
    """Draws on the terminal behind stdout, reads keys from stdin."""

    def __init__(
        self,
        app: App[Any],
        *,
        stray: StrayOutput,
        typed: Callable[[], object] | None = None,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._stray = stray
        self._typed_key = typed
        """Called for each key."""
        self._terminal = TerminalFile(STDOUT, self._hung_up, self._caught_up)
        self._file = cast("Any", self._terminal)
        self._drawing = False
        """The screen is ours: what is written are frames, and there will be others."""
        self._behind = False
        """Frames were dropped."""
        self._stopping = False
        self._arrivals: queue.SimpleQueue[tuple[bytes, float]] = queue.SimpleQueue()
        """What was typed and when; what is left as the screen is left is for when it is back."""

    @override
    def _get_terminal_size(self) -> tuple[int, int]:
        try:
            width, height = os.get_terminal_size(self._terminal.fileno())
        except OSError:
            return 80, 24
        return width or 80, height or 24

    @override
    def write(self, data: str) -> None:
        """Hand *data* to the writer; a frame too many for a stalled terminal is dropped."""
        writer = self._writer_thread
        if self._drawing and writer is not None and writer._queue.full():
            self._behind = True
        else:
            super().write(data)

    def _caught_up(self) -> None:
        """In the writer's thread: everything is written; show what was dropped on the way."""
        if self._behind and self._drawing:
            self._behind = False
            self._loop.call_soon_threadsafe(self._app.refresh)

    def _hung_up(self) -> None:
        """In any thread: the terminal is gone, and the session ends as it does on SIGHUP."""
        self._loop.call_soon_threadsafe(self._app.post_message, Interrupted(INTERRUPTED))

    @override
    def start_application_mode(self) -> None:
        self._terminal.give_up_in(None)
        self._stray.begin()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        self._drawing = True

    @override
    def stop_application_mode(self) -> None:
        self._drawing = False
        self._terminal.give_up_in(LAST_SECONDS)
        super().stop_application_mode()
        self._stray.end()

    @override
    def _sigtstp_application(self, *_: object) -> None:
        """Stop as soon as the loop comes to it: a handler runs amid a frame, with its locks."""
        self._soon(self._stop_for_shell)

    def _stop_for_shell(self) -> None:
        """Leave the screen, stop the whole job as the shell expects, and come back with it."""
        if self._stopping or not self._app.check_action("suspend_process", ()):
            return
        self._stopping = True
        if self._auto_restart:
            self.suspend_application_mode()
            self._must_signal_resume = True
        # All of the job stops, as by Ctrl+Z, unless no shell could continue it (an orphaned group).
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        os.kill(0, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._sigtstp_application)
        if self._auto_restart:
            self.resume_application_mode()
            self._app.refresh(layout=True)
        self._stopping = False

    @override
    def _sigcont_application(self, *_: object) -> None:
        """Draw again after a stop that was not announced (SIGSTOP), as soon as the loop can."""
        if not self._stopping:
            self._soon(self._draw_again)

    def _draw_again(self) -> None:
        if self._drawing and self._auto_restart:
            self.suspend_application_mode()
            self.resume_application_mode()
            self._app.refresh(layout=True)

    def _soon(self, act: Callable[[], None]) -> None:
        """From a handler of a signal, which may come once the loop is closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(act)

    @override
    def run_input_thread(self) -> None:
        """Turn what is typed into messages until the end, or until the terminal is gone."""
        parser, pieces = XTermParser(self._debug), KeyPieces()
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        reader = threading.Thread(target=self._read_typed, daemon=True)
        reader.start()
        while not self.exit_event.is_set():
            found, at = pieces.tick(), time.monotonic()
            with suppress(queue.Empty):
                typed, at = self._arrivals.get(timeout=LOOK_SECONDS)
                if not typed:
                    self._hung_up()
                    break
                found = pieces.feed(decode(typed))
            for text in found:
                for message in (Key("escape", ESC),) if text == ESC else parser.feed(text):
                    message.time = at
                    self.process_message(message)
            for message in parser.tick():
                self.process_message(message)
        reader.join()

    def _read_typed(self) -> None:
        """In a thread of its own: what is typed, and when, however long a key takes to be done.

        Nothing, once the terminal is gone.
        """
        typed = b"begun"
        while typed and not self.exit_event.is_set():
            if select.select([self.fileno], [], [], LOOK_SECONDS)[0]:
                typed = self._typed()
                self._arrivals.put((typed, time.monotonic()))

    @override
    def process_message(self, message: Message) -> None:
        """Hand it on; a key that follows waits until this one is done."""
        super().process_message(message)
        if isinstance(message, Key):
            if self._typed_key is not None:
                self._typed_key()
            wait_until_settled(self._app, self._loop, self.exit_event)

    def _typed(self) -> bytes:
        """What is there; nothing: the terminal is gone."""
        try:
            return os.read(self.fileno, READ_SIZE)
        except OSError:
            return b""


CHUNK = 4096


class TerminalFile:
    """Written to by one thread; *lost* is called there, once, when the terminal is gone."""

    def __init__(
        self, descriptor: int, lost: Callable[[], object], drained: Callable[[], object]
    ) -> None:
        self._descriptor = _own(descriptor)
        self._lost, self._drained = lost, drained
        self._end: float | None = None
        self.gone = False
        """Nothing is written any more."""

    def fileno(self) -> int:
        return self._descriptor

    def write(self, text: str) -> None:
        """Write *text*, waiting while the terminal takes nothing; dropped once it is gone."""
        content = text.encode("utf-8", "replace")
        while content and not self.gone:
            try:
                written = os.write(self._descriptor, content[:CHUNK])
            except BlockingIOError:
                if self._end is not None and time.monotonic() >= self._end:
                    self.gone = True
                else:
                    select.select([], [self._descriptor], [], LOOK_SECONDS)
            except OSError:
                self.gone = True
                self._lost()
            else:
                content = content[written:]

    def flush(self) -> None:
        """Called where there is nothing more to write."""
        self._drained()

    def give_up_in(self, seconds: float | None) -> None:
        """Drop what is not written within *seconds*; None: wait as long as it takes."""
        self._end = None if seconds is None else time.monotonic() + seconds

    def close(self) -> None:
        os.close(self._descriptor)


def _own(descriptor: int) -> int:
    """The same terminal, opened again where that can be: not waiting is a flag of what is open.

    The operator's shell shares what this program was given, and would find it changed.
    """
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return os.dup(descriptor)


SETTLE_SECONDS = 0.02
"""How soon the end is noticed while a key waits; the end waits for the thread that waits here."""
MOST_LOOKS = 250
"""Looks of the loop at a widget that does not answer: such a widget must not eat keys. Looks count
and seconds do not, because a busy machine delays the loop and the widget alike."""
PASSES = 4
"""A key may open a screen, which gives a widget the focus."""


def wait_until_settled(app: App[Any], loop: asyncio.AbstractEventLoop, ending: Event) -> None:
    """In the thread that reads keys: return when *app* has done what the last key asked for."""
    settled = asyncio.run_coroutine_threadsafe(_settled(app), loop)
    while loop.is_running() and not ending.is_set():
        try:
            settled.result(SETTLE_SECONDS)
        except concurrent.futures.TimeoutError:
            continue
        except concurrent.futures.CancelledError:
            pass
        return
    settled.cancel()


async def _settled(app: App[Any]) -> None:
    """Follow a key's way through the queues until it leads nowhere new, or a widget is stuck."""
    before: object = None
    for _ in range(PASSES):
        for pump in _way_of_a_key(app):
            if not await _caught_up(pump):
                return
        now = (app.screen_stack[-1:], app.focused if app.screen_stack else None)
        if now == before:
            return
        before = now


def _way_of_a_key(app: App[Any]) -> Iterator[MessagePump]:
    """The app, the widget with the focus, those around it, and the app again."""
    yield app
    if app.screen_stack:
        focused = app.focused or app.screen
        yield from focused.ancestors_with_self
    yield app


async def _caught_up(pump: MessagePump) -> bool:
    """Wait until *pump* has handled every message it has, or is gone; False: it is stuck."""
    done = asyncio.Event()
    if not pump.call_later(done.set):
        return True
    for _ in range(MOST_LOOKS):
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                await done.wait()
        if done.is_set() or not pump.is_running:
            return True
    return False
