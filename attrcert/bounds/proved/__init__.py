"""Bounds of attributions that hold for every perturbation of a ball, for networks of affine maps and smooth activations."""
