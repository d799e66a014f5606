"""From corpora to trained weights: datasets, normalising, the training loop, warm starts."""
