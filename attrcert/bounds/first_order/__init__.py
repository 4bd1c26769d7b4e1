"""Bounds of the linearised attribution, and what is measured beside them."""
