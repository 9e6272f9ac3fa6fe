"""Configuration: composed by Hydra, checked, and built into objects. Science does not import it."""
