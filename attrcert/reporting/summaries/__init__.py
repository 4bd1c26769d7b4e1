"""Statistics of rows."""
