"""Models: what turns a problem's unknown fields into functions of theta."""

from sciuq_runner.models.base import BoundModel, Model
from sciuq_runner.models.bnn import BNN

__all__ = ["BNN", "BoundModel", "Model"]
