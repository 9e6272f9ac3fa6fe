"""The configuration groups, as data."""
