"""Exact inference on linear chains of labels: packing, potentials, sweeps, search."""
