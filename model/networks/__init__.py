"""Factors and the models made of them: CRF and MEMM."""
