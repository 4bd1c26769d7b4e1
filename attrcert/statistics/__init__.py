"""Confidence bounds and distributions."""
