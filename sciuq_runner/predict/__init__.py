"""From samples of theta to predictions with their uncertainty."""
