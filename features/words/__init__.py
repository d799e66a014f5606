"""Words: a transcript as it is spoken, and how its words are pronounced."""
