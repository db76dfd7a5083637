"""A comparison as runs: pairs where something has to be looked at, stretches where nothing has.

What is proven to be the same is not read, equal bytes are not decoded. Where the bytes differ,
pairs follow until enough of them in a row were equal; then the bytes are tried again.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from breakglass.services.divergence.align import PairKind, RecordPair
from breakglass.services.divergence.byte_source import Same
from breakglass.services.divergence.comparison import Comparison
from breakglass.services.divergence.source import Reading

PATIENCE = 256
"""Equal pairs in a row after which bytes are compared again."""
MOST_PATIENCE = 65_536
"""The same where that was in vain again and again."""

Run = RecordPair | Same


def runs(comparison: Comparison, start: int, end: int, reading: Reading) -> Iterator[Run]:
    """What both sides have in ``[start, end)``, by address; read as far as it is asked for."""
    at, patience = max(start, comparison.extent.start), PATIENCE
    end = min(end, comparison.extent.end)
    while at < end:
        proven = comparison.proven_same
        if proven is not None and proven.start <= at < proven.end:
            upto = min(proven.end, end)
            yield Same(at, upto, upto - at)
            at = upto
            continue
        limit = proven.start if proven is not None and at < proven.start < end else end
        for same in comparison.same_from(at, limit, reading):
            yield same
            at, patience = same.end, PATIENCE
        at = yield from _decoded(comparison, at, limit, reading, patience)
        patience = min(2 * patience, MOST_PATIENCE)


def _decoded(
    comparison: Comparison, start: int, end: int, reading: Reading, patience: int
) -> Generator[RecordPair, None, int]:
    """Pairs until *patience* of them in a row were equal; returns where to go on."""
    equal = 0
    for pair in comparison.pairs(start, end, reading):
        yield pair
        equal = equal + 1 if pair.kind is PairKind.EQUAL else 0
        if equal == patience:
            return pair.end
    return end
