"""Whether this machine and this user could handle an incident: facts, and what to do about them."""
