"""Phone sets and foldings between them, with their tables."""
