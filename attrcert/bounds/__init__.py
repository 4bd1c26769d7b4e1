"""Bounds on how far an attribution can be moved; one theorem per file."""
