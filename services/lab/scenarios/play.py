"""Playing scenarios on a lab: a lab of the right shape, the acts in order, the truth at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from breakglass.services.errors import LabError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.distribution import DEFAULT_VERSION
from breakglass.services.lab.scenarios.scenario import Scenario, check_together, drive, merged_shape
from breakglass.services.lab.scenarios.stage import Stage, condition
from breakglass.services.lab.truth import Expectation, PartitionTruth, Truth, save_truth


def raise_lab(
    state_dir: Path,
    scenarios: Sequence[Scenario],
    *,
    kafka_version: str = DEFAULT_VERSION,
    overrides: Mapping[str, str] | None = None,
    secured: bool = False,
    tethered: bool = False,
) -> Cluster:
    """Start a lab that fits all *scenarios*.

    Raises:
        LabError: they do not fit together, or the lab did not start.
    """
    check_together(scenarios)
    shape = merged_shape([scenario.shape for scenario in scenarios])
    cluster = Cluster.plan(
        state_dir,
        brokers=shape.brokers,
        controllers=shape.controllers,
        log_dirs=shape.log_dirs,
        overrides={**shape.overrides, **(overrides or {})},
        kafka_version=kafka_version,
        secured=secured,
        tethered=tethered,
    )
    for scenario in scenarios:
        if scenario.shape.prepare is not None:
            scenario.shape.prepare(cluster)
    cluster.start()
    return cluster


def play(
    cluster: Cluster, scenarios: Sequence[Scenario], options: Mapping[str, str] | None = None
) -> Truth:
    """Do the damage of *scenarios* to a running lab, and say what is there then.

    The truth is kept in the state folder too. *options* go to every scenario that knows them.

    Raises:
        LabError: an unknown option, or the damage could not be done as written.
    """
    check_together(scenarios)
    chosen = dict(options or {})
    _check_options(scenarios, chosen)
    stages = [_stage(cluster, scenario, chosen) for scenario in scenarios]
    scripts = [scenario.script(stage) for scenario, stage in zip(scenarios, stages, strict=True)]
    expectations = drive(scripts, scenarios[0].course, lambda act: act.do(cluster))
    truth = Truth(
        cluster_id=cluster.layout.cluster_id,
        kafka_version=cluster.layout.kafka_version,
        scenarios=tuple(scenario.name for scenario in scenarios),
        brokers={node.id: condition(cluster, node.id) for node in cluster.brokers},
        partitions=tuple(
            truth
            for stage, expected in zip(stages, expectations, strict=True)
            for truth in _truths(cluster, stage, expected)
        ),
        notes={key: value for stage in stages for key, value in stage.notes.items()},
    )
    save_truth(truth, cluster.state_dir)
    return truth


def perform(
    state_dir: Path,
    scenarios: Sequence[Scenario],
    options: Mapping[str, str] | None = None,
    *,
    kafka_version: str = DEFAULT_VERSION,
    tethered: bool = False,
) -> tuple[Cluster, Truth]:
    """A new lab on which *scenarios* were played; on failure or Ctrl-C nothing is left of it.

    Raises:
        LabError: as `raise_lab` and `play`.
    """
    _check_options(scenarios, options or {})
    cluster = raise_lab(state_dir, scenarios, kafka_version=kafka_version, tethered=tethered)
    try:
        return cluster, play(cluster, scenarios, options)
    except BaseException:
        cluster.down()
        raise


def _check_options(scenarios: Sequence[Scenario], options: Mapping[str, str]) -> None:
    for name in options:
        if not any(name in scenario.options for scenario in scenarios):
            known = sorted({option for scenario in scenarios for option in scenario.options})
            raise LabError(
                f"There is no option {name}: these scenarios know {', '.join(known) or 'none'}."
            )


def _stage(cluster: Cluster, scenario: Scenario, options: Mapping[str, str]) -> Stage:
    given = {key: value for key, value in options.items() if key in scenario.options}
    return Stage(cluster, scenario.name, {**scenario.options, **given})


def _truths(
    cluster: Cluster, stage: Stage, expectations: Sequence[Expectation]
) -> list[PartitionTruth]:
    topics = {expected.partition.topic for expected in expectations}
    states = {state.partition: state for state in cluster.partitions(*sorted(topics))}
    for expected in expectations:
        state = states[expected.partition]
        if expected.verdict is not None and not state.offline:
            raise LabError(
                f"{state.partition} is led by broker {state.leader}, though it should be offline: "
                "play the scenario again, on a machine with less to do."
            )
    return [
        stage.truth(expected, states[expected.partition].assignment) for expected in expectations
    ]
