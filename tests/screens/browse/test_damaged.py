"""Fuzzed segments, indexes and log folders: damage has its place, the rest is browsed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from textual.pilot import Pilot

from breakglass.screens.diff.pair_list import PairList
from breakglass.services.divergence.address import SourceAddress, parse_address
from breakglass.services.divergence.align import PairKind, RecordPair
from breakglass.services.divergence.entry import UnreadableRange
from breakglass.services.topic_backup.layout import records_name
from tests.kit.extent import examples
from tests.screens.browse.opened import (
    at_offset,
    browser,
    closed,
    fill,
    idle,
    orders,
    records_of,
    shown,
    under,
)
from tests.screens.turns import shows, text, until
from tests.unit.divergence.test_log_source import tens, write
from tests.unit.topic_backup.backups import as_the_originals, back_up, segments

END = 200
Spoil = Callable[[bytes, random.Random], bytes]


def flipped(content: bytes, rng: random.Random) -> bytes:
    spoilt = bytearray(content)
    for _ in range(rng.randint(1, 12)):
        spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
    return bytes(spoilt)


def cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def torn(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    return content[:at] + content[at + rng.randint(1, 300) :]


def zeroed(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content))
    size = min(rng.randint(1, 2_000), len(content) - at)
    return content[:at] + bytes(size) + content[at + size :]


def noise(content: bytes, rng: random.Random) -> bytes:
    return rng.randbytes(len(content))


SPOILS: Sequence[Spoil] = (flipped, cut, torn, zeroed, noise)


def a_backup(folder: Path) -> tuple[SourceAddress, list[Path]]:
    """Without a manifest, and its files."""
    topic = back_up(folder, orders(0, END), max_segment_bytes=9_000)
    as_the_originals(topic)
    files = [path for path in topic.iterdir() if path.name.startswith("segment")]
    return parse_address(f"backup:{topic}/0"), sorted(files)


def a_log(folder: Path) -> tuple[SourceAddress, list[Path]]:
    write(folder / "orders-0", 0, tens(0, 100))
    write(folder / "orders-0", 100, tens(100, END))
    files = sorted((folder / "orders-0").iterdir())
    return parse_address(f"log:{folder}/orders-0"), files


async def test_a_segment_that_is_gone_is_seen_in_the_tree_and_the_rest_is_browsed(
    tmp_path: Path,
) -> None:
    topic = back_up(tmp_path, orders(0, END), max_segment_bytes=9_000)
    gone = topic / records_name(segments(topic)[1])
    gone.unlink()
    async with browser(tmp_path).run_test(size=(80, 24)) as pilot:
        await under(pilot, str(tmp_path), "orders", "0")
        await shows(pilot, "1 of them gone")
        await pilot.press("r")
        await until(pilot, lambda: at_offset(pilot.app) == 0, "the records")
        await pilot.press("n")
        await shows(pilot, " cannot be read: ")
        await until(pilot, lambda: gone.name in "".join(text(pilot.app).split()), gone.name)
        await pilot.press("end")
        await until(pilot, lambda: at_offset(pilot.app) == END - 1, "the last record")


@pytest.mark.parametrize("made", [a_backup, a_log])
async def test_whatever_is_damaged_the_screen_shows_the_rest_and_where(
    tmp_path: Path, made: Callable[[Path], tuple[SourceAddress, list[Path]]]
) -> None:
    whole, _ = made(tmp_path / "whole")
    async with browser().run_test(size=(100, 30)) as pilot:
        for seed in range(examples(10)):
            rng = random.Random(seed)
            address, files = made(tmp_path / f"spoilt with seed {seed}")
            spoilt = rng.choice(files)
            spoilt.write_bytes(rng.choice(SPOILS)(spoilt.read_bytes(), rng))
            await shown(pilot, address)
            seen = await _all_of_it(pilot)
            offsets = [pair.offset for pair in seen]
            assert offsets == sorted(set(offsets)), seed
            damages = [pair.left for pair in seen if isinstance(pair.left, UnreadableRange)]
            for damage in damages:
                assert "byte " in damage.reason or str(spoilt.parent) in damage.reason, damage
                await fill(pilot, "g", str(damage.start))
                await idle(pilot)
                assert "cannot be read" in text(pilot.app), seed
            await closed(pilot)
            await shown(pilot, whole, address)
            await pilot.press("c", "n", "N", "end", "home")
            await idle(pilot)
            records_of(pilot.app)
            await closed(pilot)


async def _all_of_it(pilot: Pilot[None]) -> list[RecordPair]:
    """Every pair there is, from the first to the last."""
    found: dict[int, RecordPair] = {}
    for _ in range(3 * END):
        await idle(pilot)
        pairs = pilot.app.screen.query_one(PairList)
        found |= {pair.offset: pair for pair in pairs.window.pairs}
        before = at_offset(pilot.app)
        await pilot.press("pagedown")
        await idle(pilot)
        if at_offset(pilot.app) == before:
            break
    assert all(pair.kind in (PairKind.EQUAL, PairKind.UNREAD) for pair in found.values())
    return [found[at] for at in sorted(found)]
