"""What operators look at: logs, metrics, tracing, readiness, health checks."""
