"""Guarded acts on the screen: one worker and one page for all of them."""
