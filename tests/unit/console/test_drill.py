"""What a drill prints of the best play."""

from breakglass.console.drill import replay_lines
from tests.kit.program import Ended
from tests.unit.bookkeeping.test_score import SCENE
from tests.unit.console.conftest import Golden
from tests.unit.lab.incidents.test_replay import SAID, commands


def test_the_replay_is_printed_as_steps_that_can_be_typed(golden: Golden) -> None:
    _, best = commands(SCENE, SAID)
    golden(Ended(0, "\n".join(replay_lines(best)) + "\n", ""))
