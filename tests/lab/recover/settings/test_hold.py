"""R14 held: unclean election is off while the operator looks, then what it was before.

b3 led everything last and is dead; b1 holds 25 records more than b2. Each test has topics of its
own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from breakglass.services.guard import act as guard
from breakglass.services.guard.act import ConsentOutdated, Front, GuardedRun
from breakglass.services.guard.steps import FREEZE_ELECTIONS
from breakglass.services.kafka.cluster.settings import UNCLEAN_ELECTION, LayeredSetting
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios.behind import ELECTION_INTERVAL
from breakglass.services.lab.scenarios.damage import (
    B1_LOST,
    B2_LOST,
    COURSE,
    LAST_LOST,
    QUICK_TO_FENCE,
    bring_back,
)
from breakglass.services.lab.scenarios.scenario import Scenario, Script, Shape, Stage
from breakglass.services.lab.topics import configure_topic
from breakglass.services.lab.truth import Expectation
from breakglass.services.recovery.acts.topic_settings import HoldElections, PutSettingsBack
from breakglass.services.recovery.topic_settings import owed
from tests.kit.configs import ConfigResource, set_config
from tests.lab.console.test_electing_on_screen import console
from tests.lab.recover.session import Watched, watched
from tests.lab.recover.settings.asking import (
    agree,
    changes,
    killed_at,
    layers,
    newest_journal,
    own,
    run,
)
from tests.lab.scenarios.damaged import cluster_after

B1_FIRST, B2_FIRST = (3, 1, 2), (3, 2, 1)
TOPICS = ("feed", "news", "stock", "wires", "cables", "quiet", "tapes")
UNCLEAN_INTERVAL = "unclean.leader.election.interval.ms"
"""How often the controller elects uncleanly by itself: here only when a broker returns."""
NO_TIMERS = {**QUICK_TO_FENCE.overrides, ELECTION_INTERVAL: "3600", UNCLEAN_INTERVAL: "3600000"}


def _script(stage: Stage) -> Script:
    partitions = [
        partition for topic in TOPICS for partition in stage.create(topic, [B1_FIRST, B2_FIRST])
    ]
    stage.write(partitions, 100)
    yield B2_LOST
    stage.write(partitions, 25)
    yield B1_LOST
    yield LAST_LOST
    return list[Expectation]()


FREEZE = ("recover", "freeze", "--write")
BROKEN = Scenario("for-hold", __doc__, _script, course=COURSE, shape=Shape(overrides=NO_TIMERS))


lab = cluster_after(BROKEN)


@pytest.fixture
def behind(lab: Cluster) -> Iterator[Watched]:
    with watched(lab) as behind:
        yield behind


@pytest.fixture
def unclean(lab: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic where unclean election is on, until the end of the test."""
    topic = str(request.param)
    configure_topic(lab, topic, {UNCLEAN_ELECTION: "true"})
    yield topic
    configure_topic(lab, topic, {UNCLEAN_ELECTION: "false"})


@contextmanager
def on_by_default(lab: Cluster) -> Iterator[None]:
    """Unclean election is on for every topic that says nothing itself."""
    set_config(lab, ConfigResource.BROKER, "", UNCLEAN_ELECTION, "true")
    try:
        lab.wait_until(
            lambda: layers(lab, UNCLEAN_ELECTION, "news").beneath == "true", "the default to be on"
        )
        yield
    finally:
        set_config(lab, ConfigResource.BROKER, "", UNCLEAN_ELECTION, None)


def leaders(lab: Cluster, topic: str) -> list[int | None]:
    return [partition.leader for partition in lab.partitions(topic)]


def return_of_b2(lab: Cluster) -> None:
    """b2 is lost and unfenced again, upon which the controller elects what it may."""
    lab.broker(2).kill()
    lab.wait_fenced(2)
    bring_back(lab, 2)


@pytest.mark.parametrize("unclean", ["feed"], indirect=True)
def test_r14_without_consent_it_says_who_would_win_and_sends_nothing(
    lab: Cluster, behind: Watched, unclean: str
) -> None:
    ended = run(behind, "recover", "freeze")
    assert ended.code == 3
    rows = [line.split() for line in ended.out.splitlines()]
    assert ["feed-0", "b1", "0", "b1", "0"] in rows
    assert ["feed-1", "b2", "25", "b1", "0"] in rows
    refused = run(behind, *FREEZE, "--consent=freeze news")
    assert (refused.code, refused.said[-1]) == (3, "consent: freeze feed")
    assert changes(behind) == []
    assert own(lab, UNCLEAN_ELECTION, "feed") == "true"


def test_r14_held_nobody_is_elected_until_it_is_released(lab: Cluster, behind: Watched) -> None:
    configure_topic(lab, "feed", {UNCLEAN_ELECTION: "true"})
    held = run(behind, *FREEZE, "--consent=freeze feed")
    assert held.code == 0, held.err
    assert own(lab, UNCLEAN_ELECTION, "feed") == "false"
    return_of_b2(lab)
    assert leaders(lab, "feed") == [None, None]
    assert newest_journal(behind).result == "frozen"
    again = run(behind, *FREEZE)
    assert again.code == 0
    assert "Nothing is frozen" in again.err

    asked = run(behind, "recover", "thaw", "--write")
    assert asked.said[-1] == "consent: release feed and 2 partitions lose 25"
    assert own(lab, UNCLEAN_ELECTION, "feed") == "false"
    consent = asked.said[-1].replace("consent: ", "--consent=")
    released = run(behind, "recover", "thaw", "--write", consent)
    assert released.code == 0, released.err
    assert own(lab, UNCLEAN_ELECTION, "feed") == "true"
    assert newest_journal(behind).result == "succeeded"
    return_of_b2(lab)
    lab.wait_until(lambda: leaders(lab, "feed") == [1, 2], "what was forecast to be elected")


def test_r14_what_is_on_by_default_is_held_and_the_topic_has_nothing_of_its_own_after(
    lab: Cluster, behind: Watched
) -> None:
    with on_by_default(lab):
        held = run(behind, *FREEZE, "--topic", "news", "--consent=freeze news")
        assert held.code == 0, held.err
        assert layers(lab, UNCLEAN_ELECTION, "news") == LayeredSetting("false", "true")
        asked = run(behind, "recover", "thaw", "--write")
        assert asked.said[-1] == "consent: release news and 2 partitions lose 25"
        consent = asked.said[-1].replace("consent: ", "--consent=")
        assert run(behind, "recover", "thaw", "--write", consent).code == 0
        assert layers(lab, UNCLEAN_ELECTION, "news") == LayeredSetting(None, "true")


def test_r14_every_topic_with_it_on_is_found_whoever_said_so(lab: Cluster, behind: Watched) -> None:
    for topic in ("quiet", "feed"):
        configure_topic(lab, topic, {UNCLEAN_ELECTION: "false"})
    with on_by_default(lab):
        document = run(behind, *FREEZE, "--json", "--consent=freeze 5 topics").document
        held = {one["topic"] for one in document["settings"]}
        assert held == {"news", "stock", "wires", "cables", "tapes"}
        assert {own(lab, UNCLEAN_ELECTION, topic) for topic in held} == {"false"}
    ended = run(behind, "recover", "thaw", "--write", "--consent=release 5 topics")
    assert ended.code == 0, ended.err
    assert {own(lab, UNCLEAN_ELECTION, topic) for topic in held} == {None}


@pytest.mark.parametrize("unclean", ["stock"], indirect=True)
@pytest.mark.parametrize(("kind", "step"), [("request", FREEZE_ELECTIONS), ("outcome", "-")])
@pytest.mark.parametrize("command", [("recover", "resume"), ("recover", "thaw")])
def test_r14_a_hold_that_was_killed_is_put_back(
    lab: Cluster, behind: Watched, unclean: str, kind: str, step: str, command: tuple[str, ...]
) -> None:
    view = killed_at(behind, kind, step, 1, *FREEZE, "--consent=freeze stock")
    sent = kind == "outcome"
    assert own(lab, UNCLEAN_ELECTION, "stock") == ("false" if sent else "true")
    assert view.result is None
    assert [(change.topic, change.before) for change in owed(view)] == [("stock", "true")]
    consent = "--consent=release stock and 2 partitions lose 25"
    ended = run(behind, *command, "--write", *([consent] if sent else []))
    assert ended.code == 0, ended.err
    assert own(lab, UNCLEAN_ELECTION, "stock") == "true"
    assert owed(newest_journal(behind)) == ()


@pytest.mark.parametrize("unclean", ["wires"], indirect=True)
def test_r14_what_somebody_else_set_meanwhile_is_left(
    lab: Cluster, behind: Watched, unclean: str
) -> None:
    assert run(behind, *FREEZE, "--consent=freeze wires").code == 0
    set_config(lab, ConfigResource.TOPIC, "wires", UNCLEAN_ELECTION, None)
    lab.wait_until(lambda: own(lab, UNCLEAN_ELECTION, "wires") is None, "it to be taken away")
    before = changes(behind)
    ended = run(behind, "recover", "thaw", "--write")
    assert ended.code == 0, ended.err
    assert "somebody has set it since: it has no value of its own" in ended.out
    assert changes(behind) == before
    assert own(lab, UNCLEAN_ELECTION, "wires") is None


def test_r14_a_setting_that_changed_since_consent_refuses(
    lab: Cluster, behind: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "FRESH_SECONDS", 0.0)
    armed = behind.connection.armed()
    act = GuardedRun(HoldElections(("cables",)), Front(armed.access(), state_folder=tmp_path))
    frozen = act.freeze()
    configure_topic(lab, "cables", {UNCLEAN_ELECTION: "true"})
    before = changes(behind)
    with pytest.raises(ConsentOutdated, match="cables: it was"):
        act.carry_out(armed.power("a test"), frozen, ["freeze cables"])
    assert changes(behind) == before
    assert own(lab, UNCLEAN_ELECTION, "cables") == "true"
    configure_topic(lab, "cables", {UNCLEAN_ELECTION: "false"})


@pytest.mark.parametrize("unclean", ["stock"], indirect=True)
def test_r14_a_release_that_was_killed_or_is_outdated_is_taken_up_again(
    lab: Cluster, behind: Watched, unclean: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(behind, *FREEZE, "--consent=freeze stock").code == 0
    consent = "--consent=release stock and 2 partitions lose 25"
    release = ("recover", "thaw", "--write", consent)
    view = killed_at(behind, "request", "put setting back", 1, *release)
    assert own(lab, UNCLEAN_ELECTION, "stock") == "false"
    assert [change.topic for change in owed(view)] == ["stock"]

    monkeypatch.setattr(guard, "FRESH_SECONDS", 0.0)
    armed = behind.connection.armed()
    front = Front(armed.access(), state_folder=tmp_path)
    act = GuardedRun(PutSettingsBack(view.path, seconds=5.0), front)
    frozen = act.freeze()
    configure_topic(lab, "stock", {UNCLEAN_ELECTION: "true"})
    before = changes(behind)
    with pytest.raises(ConsentOutdated, match=r"stock: it was .* is set again, it is gone"):
        act.carry_out(armed.power("a test"), frozen, [phrase.phrase for phrase in frozen.asked])
    assert changes(behind) == before
    configure_topic(lab, "stock", {UNCLEAN_ELECTION: "false"})

    assert run(behind, *release).code == 0
    assert own(lab, UNCLEAN_ELECTION, "stock") == "true"
    assert owed(newest_journal(behind)) == ()


@pytest.mark.parametrize("unclean", ["tapes"], indirect=True)
def test_r14_the_console_holds_and_releases(lab: Cluster, unclean: str) -> None:
    with console(lab.bootstrap_servers, "--write") as operator:
        operator.terminal.wait_for("Topic-partition")
        operator.press("h")
        agree(operator, "freeze tapes")
        operator.terminal.wait_for("Done       frozen until")
        assert own(lab, UNCLEAN_ELECTION, "tapes") == "false"
        operator.press("escape")
        operator.terminal.wait_for(" e elect")
        operator.press("4")
        operator.terminal.wait_for("r puts the settings back")
        operator.press("r")
        agree(operator, "release tapes and 2 partitions lose 25")
        operator.terminal.wait_for(f"done: {UNCLEAN_ELECTION}=true is set again")
        assert own(lab, UNCLEAN_ELECTION, "tapes") == "true"
        operator.press("escape")
        operator.terminal.wait_for("2 put back")
        operator.terminal.press("q")
        assert operator.terminal.exit_code() == 0
