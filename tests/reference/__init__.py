"""Slow, independent references: dense, brute force or in many digits. They share no code with the package."""
