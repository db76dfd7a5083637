"""What two replicas look like beside each other, in both sizes."""

import json
from collections.abc import Sequence

import pytest

from breakglass.services.divergence.source import (
    ROWS,
    Item,
    RecordEntry,
    UnreadableRange,
    content_of,
    headers_of,
)
from breakglass.services.record_batches import ControlType, Marker
from tests.screens.diff.opened import opened
from tests.screens.drawing import LOOKS, Drawn, Look, stopped_clock
from tests.unit.divergence.streams import entry

pytestmark = pytest.mark.usefixtures("bare_pages")


def payment(offset: int, account: str, epoch: int) -> RecordEntry:
    whose = f"{account}-{offset % 7}"
    value = json.dumps({"account": whose, "amount": offset * 3, "note": "café"}, ensure_ascii=False)
    return entry(offset, value.encode(), epoch)


def logs() -> dict[int, Sequence[Item]]:
    shared: list[Item] = [payment(offset, "acc", 0) for offset in range(100)]
    ours: list[Item] = [payment(offset, "acx", 2) for offset in range(100, 125)]
    theirs: list[Item] = [payment(offset, "acc", 1) for offset in range(100, 150)]
    first, second, third = (payment(offset, "acc", 2) for offset in (101, 102, 103))
    ours[1] = first._replace(key=None, timestamp=5)
    ours[2] = second._replace(headers=headers_of(((b"trace", b"\x1b[31m"),), ROWS))
    ours[3] = third._replace(marker=Marker(ControlType.ABORT, 4))
    ours[4:6] = [UnreadableRange(104, 106, "its CRC differs; read it from another replica.")]
    theirs[6] = payment(106, "acc", 1)._replace(value=content_of(b"\xff\x00" * 400, ROWS.value))
    return {1: [*shared, *ours], 2: [*shared, *theirs]}


@pytest.mark.parametrize("look", LOOKS)
async def test_two_replicas_and_a_record_look_as_before(look: Look, drawn_as_before: Drawn) -> None:
    async with opened(logs(), size=look.size, theme=look.theme, clock=stopped_clock) as shown:
        await shown.at_offset(100)
        await shown.until(lambda: "Then ! 23 offsets hold" in shown.text, "the totals")
        await shown.settled()
        drawn_as_before(shown.console)
        await shown.press("down", "v")
        await shown.opens_record()
        await shown.settled()
        drawn_as_before(shown.console)
