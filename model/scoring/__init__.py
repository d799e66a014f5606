"""How well a model labels: error rates, calibration, significance."""
