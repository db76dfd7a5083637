"""Copying a topic of small records: what each record costs, whatever its size, weighs most."""

from __future__ import annotations

from benchmarks._measure import Options, reaches
from benchmarks.backup import name_of, ratios

RECORDS, RECORD_BYTES = 20_000_000, 100
TIMES = 10
"""So many for each record that `--records` names, which are of 1,000 bytes."""
JOBS, RUNS = 3, 1
THIRD = 0.9


def main(options: Options) -> bool:
    """Print both rates and their ratio, job by job; returns whether the target is met."""
    records = options.records * TIMES if options.records else RECORDS
    found = ratios(records, RECORD_BYTES, JOBS, options.runs or RUNS)
    for number, ratio in enumerate(found[:-1], 1):
        print(f"  {name_of(number):<44} {ratio:6.2f}")
    return reaches(name_of(JOBS), found[-1], THIRD)
