"""What a run computes and how: every choice with its default. Torch-free."""
