"""What the evidence means: ranking, loss, verdict. Pure functions over frozen values."""
