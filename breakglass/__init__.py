"""What is installed: the folders of the tree, linked here, are imported as `breakglass.*` alone.

Their own names, `services` for one, would collide with an application's: nothing imports them.
"""

__version__ = "0.1.0"
