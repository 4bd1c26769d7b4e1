"""Bounds of attributions that hold for every perturbation of a ball: networks of affine maps, norms, products and smooth activations."""
