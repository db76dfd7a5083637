"""The Plan screen: the plan as an editable document."""

from breakglass.screens.plan.screen import PlanScreen

__all__ = ["PlanScreen"]
