"""Ascent within a ball: the loop, its steps, the ball."""
