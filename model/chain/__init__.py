"""Exact inference on linear chains of labels: packing, potentials, sweeps, search.

Axes, the same in every module:

    N  packed rows: the segments of a batch, all first positions, then all second ones, ... (packing.py)
    B  sequences, longest first      T  length of the longest      Y  labels
    i, j, k  labels of positions t-2, t-1, t

Potentials (potentials.py) by what they depend on:

    unary     [N, Y]           position and label           bigram   [Y, Y]      labels alone
    edge      [N, Y, Y]        position and label pair      trigram  [Y, Y, Y]   labels alone
    hyperedge [N, Y, Y, Y]     position and label triple

inference.py is what callers use, layer.py the same as a torch layer on padded batches. Sums are taken by the `sweep` of
first_order.py, second_order.py or (one sequence of order 2) single.py, on scaled probabilities, where scaling.py says that
this is exact, and by that of logarithms.py elsewhere. search.py has best sequences and samples.
"""
