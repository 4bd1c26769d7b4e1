"""What is made of rows: summaries, tables, text. Without torch, and from rows alone."""
