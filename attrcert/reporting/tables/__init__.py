"""Tables as text, and how they are shown."""
