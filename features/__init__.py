"""Sound and annotations to arrays. No torch, no web."""
