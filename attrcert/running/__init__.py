"""Runs: configuration, checks before them, batches of rows."""
