"""Errors of the service as RFC 9457 problem documents."""
