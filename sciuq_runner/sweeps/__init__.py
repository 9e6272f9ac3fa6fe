"""Sweeps: many runs, which of them are done already, and how they ended. Hydra's launchers do the launching."""
