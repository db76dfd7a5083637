"""The Plan screen: the plan as an editable document."""

from screens.plan.screen import PlanScreen

__all__ = ["PlanScreen"]
