"""Geometry of attributions as vectors."""
