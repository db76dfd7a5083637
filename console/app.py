"""The console: a map of screens and keys over the services, and nothing else.

Threads post messages, handlers here and on the screens change what is shown. Whatever opens
another screen is asked for by a message, so that no screen has to know the others.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.app import App, SystemCommand
from textual.binding import ActiveBinding, Binding, BindingType
from textual.cache import LRUCache
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.filter import LineFilter, NoColor
from textual.keys import key_to_character
from textual.screen import Screen
from textual.theme import Theme
from typing_extensions import override

from breakglass.console.memory import resume_collecting
from breakglass.screens.ascii import AsciiFilter
from breakglass.screens.context import Context
from breakglass.screens.help import legend_commands
from breakglass.screens.messages import (
    Acknowledged,
    BrowseAsked,
    ClusterRead,
    CopyAsked,
    DiffAsked,
    ElectionAsked,
    GoneDeclared,
    Interrupted,
    IntervalChanged,
    MutationBegan,
    MutationEnded,
    OfflineAsked,
    PlanAsked,
    ReadEnded,
    ReadFailed,
    RefreshAsked,
    ResumeAsked,
    Seen,
    UnfinishedFound,
)
from breakglass.screens.page import FilterField, Page
from breakglass.screens.refreshing import Refresher
from breakglass.screens.screenshot import hide_records, save_screenshot
from breakglass.screens.widgets.key_bar import KeyBar
from breakglass.services.errors import StorageError
from breakglass.services.recovery.judgement.succession import rescue_before
from breakglass.services.state_folder import state_folder
from breakglass.themes.palettes import MONOCHROME, PALETTES
from breakglass.themes.roles import theme_role_variables

if TYPE_CHECKING:
    from breakglass.screens.backups import BackupsScreen
    from breakglass.screens.browse.records import RecordsScreen
    from breakglass.screens.browse.screen import BrowseScreen
    from breakglass.screens.checkpoints import CheckpointsScreen
    from breakglass.screens.diff.screen import DiffScreen
    from breakglass.screens.elect.screen import ElectScreen, ResumeScreen
    from breakglass.screens.guard import ReleasePage
    from breakglass.screens.journal import JournalScreen
    from breakglass.screens.metastore import MetastoreScreen
    from breakglass.screens.offline.screen import OfflineScreen
    from breakglass.screens.overview import OverviewScreen
    from breakglass.screens.plan.screen import PlanScreen
    from breakglass.screens.quorum import QuorumScreen

    MainScreen = (
        OverviewScreen
        | OfflineScreen
        | PlanScreen
        | JournalScreen
        | BackupsScreen
        | BrowseScreen
        | MetastoreScreen
        | CheckpointsScreen
        | QuorumScreen
    )

THEMES = 8
"""Of so many themes, the latest, what was parsed is kept: each has variables of its own."""
SOURCES = 256
"""More than there are kinds of widgets, each of which has one."""

Parsed = LRUCache[tuple[object, ...], list[RuleSet]]


class KeptStylesheet(Stylesheet):
    """Parses a source once for each theme, whatever screens are opened and themes tried."""

    def __init__(self, *, variables: dict[str, str] | None = None) -> None:
        super().__init__(variables=variables)
        self._parse_cache = _parsed_with(frozenset(self._variables.items()))

    @override
    def set_variables(self, variables: dict[str, str]) -> None:
        if variables == self._variables:
            return
        # What is emptied now would be that of the theme before.
        self._parse_cache = LRUCache(1)
        super().set_variables(variables)
        self._parse_cache = _parsed_with(frozenset(variables.items()))

    @override
    def reparse(self) -> None:
        self.parse()


@lru_cache(maxsize=THEMES)
def _parsed_with(variables: frozenset[tuple[str, str]]) -> Parsed:  # noqa: ARG001 - kept by it
    """What was parsed with these *variables*, by source."""
    return LRUCache(SOURCES)


MODES = {
    "overview": "breakglass.screens.overview:OverviewScreen",
    "offline": "breakglass.screens.offline.screen:OfflineScreen",
    "plan": "breakglass.screens.plan.screen:PlanScreen",
    "journal": "breakglass.screens.journal:JournalScreen",
    "backups": "breakglass.screens.backups:BackupsScreen",
    "browse": "breakglass.screens.browse.screen:BrowseScreen",
    "metastore": "breakglass.screens.metastore:MetastoreScreen",
    "checkpoints": "breakglass.screens.checkpoints:CheckpointsScreen",
    "quorum": "breakglass.screens.quorum:QuorumScreen",
}
"""The main screens by the name of their mode; imported when first shown."""
_NO_COMMANDS = frozenset(
    (
        "command_palette",
        *(binding.action for binding in Screen.BINDINGS if isinstance(binding, Binding)),
    )
)
"""Actions that make sense by their keys only."""

PARTING = (
    "An election had been agreed to when this ended: `breakglass journal list` says how far it "
    "came, and the next console offers to take up what is left."
)
QUITS = "End Breakglass; a request that was sent is finished first"
NO_SELECTION = "Nothing is selected: ctrl+c copies what the mouse has selected, q quits."
WARNED_SECONDS = 10.0
"""For so long a warning is remembered: a second q after it leaves."""
VERDICTS_SECONDS = 0.2
"""For so long the first verdicts are waited for before names are shown without them."""
NO_KEYS: Mapping[str, str] = {}
WORKER_THREADS = 24
WORKER_NAME = "breakglass-worker"


def key_name(key: str) -> str:
    """Textual's name of a key that is written as its character."""
    (binding,) = Binding.make_bindings([(key, "", "")])
    return binding.key


class BreakglassApp(App[None]):
    """One session over one cluster."""

    TITLE = "Breakglass"
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "show('overview')", "Overview", show=False),
        Binding("2", "show('offline')", "Offline partitions", show=False),
        Binding("3", "show('plan')", "Plan", show=False),
        Binding("4", "show('journal')", "Journal", show=False),
        Binding("5", "show('backups')", "Backups", show=False),
        Binding("6", "show('browse')", "Browse", show=False),
        Binding("7", "show('metastore')", "Metastore", show=False),
        Binding("8", "show('checkpoints')", "Checkpoints", show=False),
        Binding("9", "show('quorum')", "Quorum", show=False),
        Binding("colon,ctrl+p", "command_palette", "Commands", key_display=":"),
        Binding("ctrl+s", "screenshot", "Screenshot, redacted", show=False),
        Binding("ctrl+z", "suspend_process", "Stop, to the shell", show=False),
        Binding(
            "exclamation_mark",
            "acknowledge",
            "acknowledge",
            key_display="!",
            tooltip="Take note of the elections that cost records: the line on top goes",
        ),
        Binding(
            "W",
            "save_before_return",
            "Save before a return",
            show=False,
            tooltip="Do what the first line says: save what a broker cuts when it returns",
        ),
        Binding(
            "Y",
            "copy_commanded",
            "Copy the command",
            show=False,
            tooltip="Copy the command of the first line, with this connection",
        ),
        Binding("q", "quit", "Quit", show=False, tooltip=QUITS),
        Binding("ctrl+q", "quit", "Quit", show=False, tooltip=QUITS, priority=True),
    ]

    def __init__(
        self,
        context: Context,
        *,
        theme: str,
        themes: Iterable[Theme] = (),
        start: str = "offline",
        keys: Mapping[str, str] = NO_KEYS,
    ) -> None:
        super().__init__()
        self._own = {key_name(default): key_name(own) for default, own in keys.items()}
        """The operator's own key, by the default key that it replaces."""
        self._default = {own: default for default, own in self._own.items()}
        self.stylesheet = KeptStylesheet(variables=self.get_css_variables())
        self.context = context
        self._refresher = Refresher(self, context)
        self._start = start
        """The mode of the first screen."""
        self._warned_at = -WARNED_SECONDS
        """When the operator was warned of what leaving would lose."""
        self.executor: ThreadPoolExecutor | None = None
        """Runs the workers; the code that runs the app sees to its end."""
        self._mutations = 0
        self._leaving: int | None = None
        """The exit code, once the session is to end."""
        self.parting = ""
        """What the operator is to hear once the terminal is the shell's again."""
        self._looked_back = False
        """What the session before left was looked for."""
        for known in (*PALETTES, *themes):
            self.register_theme(known)
        self.theme = theme
        for mode, place in MODES.items():
            self.add_mode(mode, partial(screen_at, place, context))

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return theme_role_variables(self.current_theme)

    @override
    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = [*super().get_line_filters()]
        if self.theme == MONOCHROME.name:
            # Some of Textual's widgets name colours that no theme can change.
            filters.append(NoColor())
        if self.context.terminal.ascii_only:
            filters.append(AsciiFilter())
        return filters

    @override
    async def on_event(self, event: events.Event) -> None:
        """Take the operator's own keys for those that they replace, except where text is typed."""
        typed = isinstance(event, events.Key) and not event.is_forwarded and self._own
        if not typed or getattr(self.screen, "TAKES_PHRASES", False):
            await super().on_event(event)
            return
        assert isinstance(event, events.Key)
        writes = self.focused is not None and self.focused.check_consume_key
        key = self._default.get(event.key, "" if event.key in self._own else event.key)
        if writes and writes(event.key, event.character):
            await super().on_event(event)
        elif key and not (writes and key != event.key and writes(key, key_to_character(key))):
            character = event.character if key == event.key else key_to_character(key)
            await super().on_event(events.Key(key, character))

    @override
    def get_key_display(self, binding: Binding) -> str:
        """The operator's own key, in ASCII where the terminal has nothing else."""
        own = self._own.get(binding.key)
        if own is not None and not getattr(self.screen, "TAKES_PHRASES", False):
            binding = replace(binding, key=own, key_display=None)
        shown = super().get_key_display(binding)
        plain = self.context.terminal.ascii_only and not shown.isascii()
        return binding.key if plain else shown

    async def on_mount(self) -> None:
        # The default has a few threads more than the machine has cores: one hung broker each
        # would take them all.
        self.executor = ThreadPoolExecutor(WORKER_THREADS, WORKER_NAME)
        asyncio.get_running_loop().set_default_executor(self.executor)
        self._refresher.ask()
        # Only now: what mounts under an eager task factory, as Textual sets one from Python 3.12
        # on, asks for the screen in front, and before this there is none.
        await self.switch_mode(self._start)

    async def action_show(self, mode: str) -> None:
        await self.switch_mode(mode)

    @override
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """No stop of the process while something is changed; a key for an alarm while it stands."""
        if action == "suspend_process" and self._mutations:
            return None
        if action in ("save_before_return", "copy_commanded"):
            return self._returning is not None
        return action != "acknowledge" or self.context.known.alarming

    @on(ClusterRead)
    @on(ReadFailed)
    def _told(self, message: ClusterRead | ReadFailed) -> None:
        resume_collecting()
        if not self._refresher.accept(message):
            return
        incident = self.context.known.incident
        if incident is not None and incident.rows and not incident.judged:
            # Brokers that are well tell their replicas at once: one frame instead of two.
            self.set_timer(VERDICTS_SECONDS, self._tell_screens)
        else:
            self._tell_screens()

    @on(ReadEnded)
    def _read_ended(self) -> None:
        self._refresher.ended()
        self._look_back()

    @on(RefreshAsked)
    def _refresh(self) -> None:
        self._refresher.ask()

    @on(GoneDeclared)
    def _declare_gone(self, message: GoneDeclared) -> None:
        self.context.watch.declare_gone(message.brokers)
        self._refresher.ask()

    def action_acknowledge(self) -> None:
        self.run_worker(self._acknowledge, group="acknowledge", thread=True, exit_on_error=False)

    def _acknowledge(self) -> None:
        """In a thread: writes into the state folder."""
        self.post_message(Acknowledged(self.context.watch.acknowledge()))

    @on(Acknowledged)
    def _acknowledged(self, message: Acknowledged) -> None:
        self.context.known.observations = tuple(message.observations)
        self.notify("Acknowledged: the Journal (4) keeps it.", markup=False)
        self._tell_screens()

    def offers_key(self, active: ActiveBinding) -> bool:
        del active
        return True

    @property
    def _returning(self) -> int | None:
        """The broker before whose return the first line has records saved."""
        incident = self.context.known.incident
        if incident is None or self.context.bundle is not None or self.context.last_seen:
            return None
        return incident.summary.rescue_first

    def action_save_before_return(self) -> None:
        make = class_at("breakglass.screens.offline.rescue:BeforeReturnScreen")
        if self._returning is not None and not isinstance(self.screen, make):
            self.push_screen(make(self.context, self._returning))

    def action_copy_commanded(self) -> None:
        if self._returning is not None:
            words = shlex.join(self.context.connection_words)
            command = f"{rescue_before(self._returning)} {words}".rstrip()
            self.post_message(CopyAsked(command, "the command"))

    @on(IntervalChanged)
    def _interval(self, message: IntervalChanged) -> None:
        self._refresher.set_interval(message.seconds)
        self._tell_screens()

    @on(MutationBegan)
    def _mutation_began(self) -> None:
        self._mutations += 1
        self._refresher.pause()
        self._tell_screens()

    @on(MutationEnded)
    def _mutation_ended(self) -> None:
        self._mutations -= 1
        if self._mutations:
            return
        if self._leaving is not None:
            self.parting = PARTING
            self._leave()
        else:
            self._refresher.resume()
            self._tell_screens()

    @on(OfflineAsked)
    async def _show_offline(self, message: OfflineAsked) -> None:
        await self.switch_mode("offline")
        self._current("breakglass.screens.offline.screen:OfflineScreen").keep_only(message.wanted)

    @on(PlanAsked)
    async def _make_plan(self, message: PlanAsked) -> None:
        await self.switch_mode("plan")
        self._current("breakglass.screens.plan.screen:PlanScreen").begin(message.partitions)

    @on(ElectionAsked)
    def _elect(self, message: ElectionAsked) -> None:
        make: type[ElectScreen] = class_at("breakglass.screens.elect.screen:ElectScreen")
        if not isinstance(self.screen, make):
            self.push_screen(make(self.context, message.partitions, message.plan))

    @on(ResumeAsked)
    def _resume(self, message: ResumeAsked) -> None:
        where = "guard.acts:ReleasePage" if message.settings else "elect.screen:ResumeScreen"
        make: type[ReleasePage | ResumeScreen] = class_at(f"breakglass.screens.{where}")
        if not isinstance(self.screen, make):
            self.push_screen(make(self.context, message.journal))

    def _look_back(self) -> None:
        """Once the cluster was read, look for an election that ended before its time."""
        incident = self.context.known.incident
        if incident is not None and not self._looked_back:
            self._looked_back = True
            find = partial(self._find_unfinished, incident.snapshot.cluster_id)
            self.run_worker(find, group="unfinished", thread=True, exit_on_error=False)

    def _find_unfinished(self, cluster_id: str) -> None:
        """In a thread: reads journals."""
        found = class_at("breakglass.screens.elect.unfinished:unfinished")
        briefs = found(cluster_id, self.context.state_folder)
        if briefs:
            self.post_message(UnfinishedFound(briefs))

    @on(UnfinishedFound)
    def _offer_resume(self, message: UnfinishedFound) -> None:
        if self.current_mode == "journal":
            return
        if len(self.screen_stack) > 1:
            # The operator has begun something: nothing is put in front of it.
            self.notify("An election stopped before its end: see the Journal (4).", markup=False)
        else:
            self.push_screen(
                class_at("breakglass.screens.elect.unfinished:UnfinishedScreen")(message.briefs)
            )

    @on(DiffAsked)
    def _diff(self, message: DiffAsked) -> None:
        make: type[DiffScreen] = class_at("breakglass.screens.diff.screen:DiffScreen")
        self.push_screen(make(self.context, message.partition, message.left, message.right))

    @on(BrowseAsked)
    def _browse(self, message: BrowseAsked) -> None:
        make: type[RecordsScreen] = class_at("breakglass.screens.browse.records:RecordsScreen")
        subject = class_at("breakglass.screens.browse.subject:BrowseSubject")(
            message.left, message.right
        )
        self.push_screen(make(self.context, subject, message.offset))

    @on(CopyAsked)
    def _copy(self, message: CopyAsked) -> None:
        self.copy_to_clipboard(message.text)
        # By OSC 52 the terminal gives no receipt: no more is claimed than was sent.
        lines = message.text.count("\n") + 1
        size = f"{lines:,} lines" if lines > 1 else f"{len(message.text):,} characters"
        self._say_below(
            f"Sent to the clipboard (no receipt): {message.what} ({size}).",
            "If nothing arrives, the terminal or tmux refuses OSC 52.",
        )

    def _say_below(self, *sentences: str) -> None:
        """In the line of keys, where words cover nothing that is read; a dialog has none.

        What would be cut at the edge of that line is said in a corner, where it is wrapped.
        """
        bar = next(iter(self.screen.query(KeyBar)), None)
        if bar is None or len(sentences[0]) >= bar.size.width:
            self.notify(" ".join(sentences), markup=False)
        else:
            bar.say(sentences)

    @on(Interrupted)
    def _interrupted(self, message: Interrupted) -> None:
        self._end(message.exit_code)

    @override
    def action_screenshot(self, filename: str | None = None, path: str | None = None) -> None:
        """Save the screen as SVG, without what records hold."""
        hide_records(self, True)
        self.call_after_refresh(self._save_screenshot)

    def _save_screenshot(self) -> None:
        folder = (self.context.saving_folder or state_folder()) / "screenshots"
        try:
            place = save_screenshot(self.export_screenshot(), folder)
        except StorageError as error:
            self.notify(str(error), severity="error", markup=False)
        else:
            self.notify(f"Saved without what records hold: {place}", markup=False)
        finally:
            hide_records(self, False)

    @override
    def action_help_quit(self) -> None:
        """Ctrl-C where there is nothing to copy."""
        self._say_below(NO_SELECTION)

    async def action_quit(self) -> None:
        """End the session; where that would lose something, say so and wait for a second q."""
        now = self.context.clock()
        lost = "" if now - self._warned_at < WARNED_SECONDS else self._unsaved()
        if lost:
            self._warned_at = now
            self.notify(f"{lost} Press q again to leave all the same.", markup=False)
        else:
            self._end(0)

    def _unsaved(self) -> str:
        for mode in MODES:
            with suppress(KeyError):
                for screen in self.get_screen_stack(mode):
                    if isinstance(screen, Page) and (lost := screen.unsaved()):
                        return lost
        return ""

    def _end(self, exit_code: int) -> None:
        """End now, or after the request that is under way."""
        self._leaving = exit_code
        # What reads ends at once, be it the look before an election; what elects has a connection
        # of its own.
        self.context.close()
        if self._mutations:
            self.notify(
                "Finishing the request that was sent; nothing new begins, then Breakglass ends.",
                markup=False,
            )
        else:
            self._leave()

    def _leave(self) -> None:
        self.exit(return_code=self._leaving or 0)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """What `:` finds: everything that can be done here, and by which key."""
        yield from bound_commands(self, screen)
        yield SystemCommand("Theme", "Choose a colour theme", self.action_change_theme)
        yield from legend_commands(self)

    def _tell_screens(self) -> None:
        screens = self.screen_stack
        for screen in screens:
            screen.post_message(Seen())
        if screens:  # What was read comes as the console leaves, too.
            self.refresh_bindings()

    def _current(self, place: str) -> Any:
        """The screen that is shown, which is of the class at *place*."""
        return next(screen for screen in self.screen_stack if isinstance(screen, class_at(place)))


class LimitedConsole(BreakglassApp):
    """A console that runs the actions of *OFFERED* and those of Textual's own widgets.

    A new key of a screen is off there until somebody adds its action to the list.
    """

    OFFERED: ClassVar[frozenset[str]]

    def offers(self, target: DOMNode, name: str, parameters: tuple[object, ...]) -> bool:
        del parameters
        # A field that is typed into, a list that scrolls.
        of_textual = type(target).__module__.startswith("textual.")
        return of_textual or isinstance(target, FilterField) or name in self.OFFERED

    @override
    def offers_key(self, active: ActiveBinding) -> bool:
        target, name, parameters = self._parse_action(active.binding.action, active.node)
        return self.offers(target, name, parameters)

    def decline(self) -> None:
        raise NotImplementedError

    @override
    async def run_action(
        self,
        action: Any,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        target, name, parameters = self._parse_action(action, default_namespace or self, namespaces)
        if self.offers(target, name, parameters):
            return await super().run_action(action, default_namespace, namespaces)
        self.decline()
        return True


def class_at(place: str) -> Any:
    """The class at ``module:name``, which is imported now."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def screen_at(place: str, context: Context) -> MainScreen:
    """A screen of the class at *place*."""
    made: MainScreen = class_at(place)(context)
    return made


def bound_commands(app: App[Any], screen: Screen[Any]) -> Iterator[SystemCommand]:
    """Everything that can be done on *screen* by a key, each action once."""
    found: set[str] = set()
    for active in screen.active_bindings.values():
        binding = active.binding
        own = isinstance(active.node, Screen | App) and binding.action not in _NO_COMMANDS
        if own and binding.description and active.enabled and binding.action not in found:
            found.add(binding.action)
            run = partial(app.run_action, binding.action, active.node)
            about = f"key {app.get_key_display(binding)}"
            if active.tooltip:
                about = f"{active.tooltip} ({about})"
            yield SystemCommand(binding.description, about, run)
