"""Headers of records in checkpointed topics."""

from breakglass.services.checkpoint.kafka.control import ORIGIN, SN

OUTSIDE: list[tuple[str, bytes]] = [(SN, b"0"), (ORIGIN, b"")]
"""The headers of records that applications put in from outside the topics."""
