"""An election under guard, from its price to its confirmation, for any front end."""
