"""What an application that takes part in coordinated checkpoints imports (docs/checkpoints.md)."""

from breakglass.services.checkpoint.participant.application import (
    Application,
    Guarantee,
    Input,
    Output,
)
from breakglass.services.checkpoint.participant.participant import Membership, Participant, run

__all__ = ["Application", "Guarantee", "Input", "Membership", "Output", "Participant", "run"]
