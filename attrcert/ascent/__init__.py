"""Ascent within a ball: what climbs, the loop, its steps, the ball."""
