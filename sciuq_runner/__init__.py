"""Uncertainty quantification for scientific machine learning, from one line of configuration."""

__version__ = "0.1.0"
