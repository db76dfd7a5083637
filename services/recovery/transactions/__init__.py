"""Transactions that lost their markers, which logs that were not elected may still have (R18)."""
