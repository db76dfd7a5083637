"""The truth of a lab, read by another process than made it."""

from pathlib import Path

from breakglass.services.errors import LabError
from breakglass.services.lab.layout import TRUTH_FILE
from breakglass.services.lab.truth import Truth, from_json


def load_truth(state_dir: Path) -> Truth:
    """The truth of the lab in *state_dir*.

    Raises:
        LabError: no scenario ran there.
    """
    try:
        return from_json((state_dir / TRUTH_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LabError(f"No scenario ran in {state_dir}: run `lab scenario` first.") from None
