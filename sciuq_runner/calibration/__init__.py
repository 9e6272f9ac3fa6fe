"""Calibration after training: the distribution of scaled residuals. One calibrator, one file."""
