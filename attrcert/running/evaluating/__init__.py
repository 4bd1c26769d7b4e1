"""Rows of a run, a batch at a time."""
