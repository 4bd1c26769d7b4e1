"""Arrays of chosen samples, as files."""
