"""One run: its stages, its folder, and how it goes on after an interruption."""
