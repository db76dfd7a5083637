"""Applications as they are continue from transactional checkpoints, with each input counted once.

`make soak-transactional` does the same a hundred times each.
"""

import os
from pathlib import Path

from breakglass.services.lab.cluster import Cluster
from tests.lab.transactional.rounds import rounds

BOTH = range(3, 4 + int(os.environ.get("TRANSACTIONAL_ROUNDS", "0")))
"""An instance and a broker are killed while each checkpoint is taken; others come with the soak."""


def test_h15_kafka_streams_continues_and_counts_each_input_once(
    three_mortal_brokers: Cluster, tmp_path: Path
) -> None:
    done = list(rounds(three_mortal_brokers, "streams", BOTH, tmp_path))
    assert done
    assert all(one.consistent for one in done), done


def test_h15_a_transactional_loop_with_a_cycle_continues_and_the_total_is_conserved(
    three_mortal_brokers: Cluster, tmp_path: Path
) -> None:
    done = list(rounds(three_mortal_brokers, "bank", BOTH, tmp_path))
    assert done
    assert all(one.consistent for one in done), done
