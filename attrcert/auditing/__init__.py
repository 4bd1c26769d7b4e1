"""Is the explanation stable? Bounds, proofs, certificates and attacks within a time, one verdict of them, and one page."""
