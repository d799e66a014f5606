"""The model file: one `.safetensors` and the header in it."""
