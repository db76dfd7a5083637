"""Plays random incidents on real brokers, recovers them unattended, and judges the result.

``make campaign INCIDENTS=N SEED=S``. Each seed makes an `LabIncident`, which is played twice, each
time on a new lab: for Breakglass and for Kafka's own tools. `breakglass.bookkeeping` shares no
code with the rest: it reads every replica from disk, and what was said and saved is compared with
that.
"""
