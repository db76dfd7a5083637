"""The lab itself on real brokers: quick, small, obedient, and gone afterwards."""

from __future__ import annotations
