"""Rows as a page with figures and pictures."""
