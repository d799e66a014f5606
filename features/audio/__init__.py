"""Sound: what a file is, its samples, and what is odd about them."""
