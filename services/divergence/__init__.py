"""Where two ordered streams of records differ: one comparison for every diff in the product.

A `Source` (source.py) is a stream of entries with an address each, here a record's offset. Two
sources are aligned (align.py), their pairs counted and gathered into hunks (hunks.py), paged
through in either direction (pages.py) and searched for the next difference (search.py). What a
source cannot read is part of its stream, with its place and its reason.
"""
