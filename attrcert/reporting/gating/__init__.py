"""Rules over rows, and what is said of them."""
