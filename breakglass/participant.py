"""What an application that takes part in coordinated checkpoints imports (docs/checkpoints.md)."""

from breakglass.services.checkpoint.participant.participant import (
    Application,
    Guarantee,
    Input,
    Membership,
    Output,
    Participant,
    run,
)

__all__ = ["Application", "Guarantee", "Input", "Membership", "Output", "Participant", "run"]
