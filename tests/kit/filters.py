"""A filter as text, of which nothing may be wrong."""

from breakglass.services.incident.listing import RowFilter, readable


def parse_filter(text: str) -> RowFilter:
    """Read *text*. Raises FilterError, which says what is wrong with which word."""
    wanted, fault = readable(text)
    if fault is not None:
        raise fault
    return wanted
