"""From a model, data and settings to a run that is checked and laid out."""
