"""The walk of docs/architecture.md: from a key to an election's request, and how long it is."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from breakglass.screens.elect.screen import GuardedPage
from breakglass.screens.elect.state import Phase
from breakglass.services.kafka.election_client import ElectionClient
from tests.screens.elect.conftest import Electing

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "architecture.md"
MOST_FRAMES = 15


def frames() -> list[str]:
    """The product's files on the stack, the outermost first."""
    product = ROOT / "breakglass"
    found = [Path(frame.filename) for frame in traceback.extract_stack()]
    return [path.relative_to(product).as_posix() for path in found if path.is_relative_to(product)]


async def test_few_frames_lie_between_a_key_and_its_request_and_the_page_names_their_files(
    electing: Electing, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[list[str]] = []
    begin, elect = GuardedPage._in_thread, ElectionClient.elect

    def beginning(page: GuardedPage, work: Callable[[], None]) -> None:
        passed.append(frames())
        begin(page, work)

    def electing_now(client: ElectionClient, *words: Any, **more: Any) -> Any:
        passed.append(frames())
        return elect(client, *words, **more)

    monkeypatch.setattr(GuardedPage, "_in_thread", beginning)
    monkeypatch.setattr(ElectionClient, "elect", electing_now)
    electing.session.offline()
    async with electing.asked() as screen:
        passed.clear()
        await screen.type_phrase()
        await screen.press("enter")
        await screen.comes_to(Phase.DONE)
    by_key, by_thread = passed[:2]
    walked = [*by_key, *by_thread]
    assert "services/guard/run.py" in walked
    assert len(walked) <= MOST_FRAMES, walked
    named = re.findall(r"`((?:screens|services|console)/[a-z_/]+\.py)`", PAGE.read_text())
    assert set(walked) <= set(named)
    assert [one for one in named if not (ROOT / one).is_file()] == []
