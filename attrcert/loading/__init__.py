"""From what a user has (checkpoint, code, folder) to a Classifier and Images."""
