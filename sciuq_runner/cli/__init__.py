"""The command lines, one small module each."""
