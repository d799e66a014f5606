"""Drawn examples are the same in every run, and no clock decides: a loaded machine is not a failure."""

from hypothesis import HealthCheck, settings

settings.register_profile("phonechain", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("phonechain")
