"""Networks as they are run: logits of images in [0, 1], softplus twins, what happens inside."""
