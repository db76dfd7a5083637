"""What can be asked of a restore of topics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """What is asked of a restore."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    """New name by old one; a topic that is not named keeps its own."""
    partitions: Collection[int] = ()
    """Only these; all by default."""
    until_offset: int | None = None
    """Records from this offset on are left out."""
    until_ms: int | None = None
    """In each partition, everything from the first record later than this is left out."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Topic settings over those that were saved; an empty one leaves a saved one out."""
    groups: bool = False
    """Consumer groups get their offsets, too."""
    groups_at_ms: int | None = None
    """As they were at that time; the newest ones by default."""
    into_existing: bool = False
    """The target may hold records already."""
    accepted_gaps: Collection[str] = ()
    """Offsets that the backup cannot give back, as a refusal named them."""
    resume: bool = False
    """The target is that of a restore that was ended before its time."""
