"""Every choice that a user has, declared once: what is computed, of what, and how. Torch-free."""
