"""One file an operation: how it is applied, pulled back and read."""
