"""Batches of linear maps and what their products reveal: top singular values, sign norms, row sums."""
