"""Bounds of attributions averaged over noise, which hold with confidence or for any network."""
