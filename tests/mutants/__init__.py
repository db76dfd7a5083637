"""Rules proved by breaking them: each patch under `rules` breaks one and names the test that fails.

A test that stays green under its mutant proves nothing. `make mutants` applies each patch to a copy
of the tree, runs the test that the patch names, and fails where that test still passes.
"""
