"""Whatever changes the world is an act, and both front ends reach acts by the guard alone."""

import importlib
import pkgutil
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import pytest

from breakglass import services
from breakglass.services.errors import (
    AlreadyRunning,
    BreakglassError,
    ClusterError,
    ConsentMissing,
    OutcomeUnknown,
    Refused,
    Unreachable,
)
from breakglass.services.guard import act as guard
from breakglass.services.guard.act import (
    PARTLY_FAILED,
    SUCCEEDED,
    Act,
    ActEvent,
    ConsentOutdated,
    Ending,
    Front,
    Frozen,
    GuardedRun,
    JournalOpened,
    Means,
)  # fmt: skip
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.guard.journal import Journal, JournalView, list_journals
from breakglass.services.guard.lock import ClusterLock

ROOT = Path(__file__).resolve().parents[3]
SERVER = ROOT / "console" / "checkpoint.py"
"""Takes checkpoints as long as it runs; it was begun with --write."""
CHANGING = re.compile(
    r"\bJournal\.(open|resume)\(|power\w*(\([^()]*\))?\.(elections|groups|settings|topics"
    r"|command_topic|markers|records|transaction_ends)\(",
    re.IGNORECASE,
)
"""Opens a journal, or has `Power` make a client that changes a cluster."""


def acts() -> list[type[Act[object]]]:
    """Every act of the product."""
    found: list[type[Act[object]]] = []
    for package in pkgutil.iter_modules(services.__path__, "breakglass.services."):
        try:
            folder = importlib.import_module(f"{package.name}.acts")
        except ModuleNotFoundError:
            continue
        for module in pkgutil.iter_modules(folder.__path__, f"{folder.__name__}."):
            for one in vars(importlib.import_module(module.name)).values():
                if isinstance(one, type) and issubclass(one, Act) and one.__module__ == module.name:
                    found.append(one)
    return found


def test_each_act_says_what_it_does_and_leaves_the_guarding_to_the_guard() -> None:
    subsystems = set()
    for act in acts():
        subsystems.add(act.__module__.split(".")[2])
        assert act.doing, act
        source = Path(str(importlib.import_module(act.__module__).__file__)).read_text()
        assert "Journal.open(" not in source, act
        assert "require_phrases(" not in source, act
    assert subsystems == {"checkpoint", "metastore", "pipeline", "recovery"}


def test_no_front_end_opens_a_journal_or_makes_a_client_that_changes_anything() -> None:
    paths = [path for folder in ("console", "screens") for path in (ROOT / folder).rglob("*.py")]
    assert {path for path in paths if CHANGING.search(path.read_text())} == {SERVER}


def test_only_the_guard_carries_an_act_out() -> None:
    paths = list((ROOT / "services").rglob("*.py"))
    callers = [path for path in paths if "act.carry_out(" in path.read_text()]
    assert callers == [ROOT / "services" / "guard" / "act.py"]


CLUSTER = "a-cluster"
PHRASE = "delete checkpoint 3"
FROZEN: Frozen[None] = Frozen(
    CLUSTER, (ConsentPhrase(PHRASE),), (("State", "completed"),), ("orders-0",)
)
CHANGED = replace(FROZEN, facts=(("State", "failed"),))
GONE = Unreachable("b1 does not answer")


@dataclass
class ScriptedAct(Act[None]):
    """An act whose looks and end are given."""

    doing: ClassVar[str] = "deleting a checkpoint"
    looks: list[Frozen[None] | BreakglassError] = field(default_factory=lambda: [FROZEN])
    failure: BaseException | None = None
    ending: Ending = field(default_factory=Ending)
    steps: list[str] = field(default_factory=list)

    def freeze(self, front: Front) -> Frozen[None]:
        self.steps.append("look")
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, BreakglassError):
            raise look
        return look

    def carry_out(self, front: Front, means: Means, frozen: Frozen[None]) -> Ending:
        self.steps.append("act")
        if self.failure is not None:
            raise self.failure
        return self.ending


@dataclass
class Guarded:
    """A run of *act*, and what it left on disk."""

    act: ScriptedAct
    state: Path
    stop: bool = False
    events: list[ActEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        front = Front(None, self.events.append, lambda: self.stop, self.state)
        self.run = GuardedRun(self.act, front)
        self.frozen = self.run.freeze()
        self.act.steps.clear()

    def carry_out(self, *phrases: str) -> Ending:
        return self.run.carry_out(None, self.frozen, phrases)

    @property
    def journals(self) -> list[JournalView]:
        found = list_journals(CLUSTER, self.state)
        return [journal for journal in found if isinstance(journal, JournalView)]

    @property
    def results(self) -> list[str | None]:
        return [journal.result for journal in self.journals]


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator took a while to agree."""
    monkeypatch.setattr(guard, "FRESH_SECONDS", 0.0)


@pytest.mark.parametrize("given", [(), ("delete checkpoint 4",), ("delete checkpoint 3 ",)])
def test_without_the_phrase_nothing_is_opened_looked_at_or_done(
    tmp_path: Path, given: tuple[str, ...]
) -> None:
    guarded = Guarded(ScriptedAct(), tmp_path)
    with pytest.raises(ConsentMissing) as refused:
        guarded.carry_out(*given)
    assert refused.value.phrase == PHRASE
    assert (guarded.act.steps, guarded.journals, guarded.events) == ([], [], [])


@pytest.mark.usefixtures("waited")
def test_after_consent_it_looks_again_then_acts_and_the_journal_says_so(tmp_path: Path) -> None:
    guarded = Guarded(ScriptedAct(), tmp_path)
    guarded.carry_out(PHRASE)
    assert guarded.act.steps == ["look", "act"]
    (journal,) = guarded.journals
    assert [str(entry.kind) for entry in journal.entries] == ["opened", "consent", "closed"]
    assert journal.consent is not None
    assert journal.consent.payload["phrase"] == PHRASE
    assert journal.result == "succeeded"
    assert guarded.events == [JournalOpened(journal.path)]


@pytest.mark.usefixtures("waited")
def test_what_changed_since_consent_is_refused_with_what_it_is_now(tmp_path: Path) -> None:
    guarded = Guarded(ScriptedAct([FROZEN, CHANGED]), tmp_path)
    with pytest.raises(ConsentOutdated) as refused:
        guarded.carry_out(PHRASE)
    assert refused.value.fresh == CHANGED
    assert guarded.act.steps == ["look"]
    assert guarded.results == ["nothing done"]
    assert guarded.journals[0].consent is None


@pytest.mark.usefixtures("waited")
def test_b36_a_consent_is_of_the_bytes_that_were_read_for_it(tmp_path: Path) -> None:
    """A store may answer the second look with other records under the same names and figures."""
    read, forged = replace(FROZEN, source="a digest"), replace(FROZEN, source="another")
    guarded = Guarded(ScriptedAct([read, forged]), tmp_path)
    with pytest.raises(ConsentOutdated, match="other bytes"):
        guarded.carry_out(PHRASE)
    assert guarded.act.steps == ["look"]


@pytest.mark.usefixtures("waited")
@pytest.mark.parametrize(("second", "error"), [(GONE, Unreachable), (FROZEN, Refused)])
def test_nothing_is_done_that_cannot_be_looked_at_again_or_was_given_up_meanwhile(
    tmp_path: Path, second: Frozen[None] | BreakglassError, error: type[Exception]
) -> None:
    guarded = Guarded(ScriptedAct([FROZEN, second]), tmp_path)
    guarded.stop = second is FROZEN
    with pytest.raises(error):
        guarded.carry_out(PHRASE)
    assert (guarded.act.steps, guarded.results) == (["look"], ["nothing done"])


def test_a_consent_is_good_for_one_run(tmp_path: Path) -> None:
    guarded = Guarded(ScriptedAct(), tmp_path)
    guarded.carry_out(PHRASE)
    with pytest.raises(AlreadyRunning):
        guarded.carry_out(PHRASE)
    assert guarded.act.steps == ["act"]


def test_another_process_at_the_cluster_keeps_it_out(tmp_path: Path) -> None:
    guarded = Guarded(ScriptedAct(), tmp_path)
    lock = ClusterLock.acquire(CLUSTER, tmp_path / "locks")
    try:
        with pytest.raises(AlreadyRunning):
            guarded.carry_out(PHRASE)
    finally:
        lock.release()
    assert guarded.act.steps == []


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (ClusterError("grant DELETE"), "failed"),
        (OutcomeUnknown("no answer came"), "unknown"),
        (Unreachable("b1 went away"), "unknown"),
        (KeyboardInterrupt(), None),
        (SystemExit(137), None),
    ],
)
def test_an_error_ends_the_journal_by_what_is_known_of_it_and_a_kill_leaves_it_open(
    tmp_path: Path, error: BaseException, result: str | None
) -> None:
    guarded = Guarded(ScriptedAct(failure=error), tmp_path)
    with pytest.raises(type(error)):
        guarded.carry_out(PHRASE)
    assert guarded.results == [result]
    journal, view = Journal.resume(guarded.journals[0].path, tmp_path)
    journal.close()
    assert view.consent is not None


def test_an_act_that_was_stopped_leaves_a_journal_without_end(tmp_path: Path) -> None:
    assert [Ending(result).whole for result in (SUCCEEDED, PARTLY_FAILED, None)] == [
        True,
        False,
        False,
    ]
    guarded = Guarded(ScriptedAct(ending=Ending(None)), tmp_path)
    guarded.carry_out(PHRASE)
    assert guarded.results == [None]
