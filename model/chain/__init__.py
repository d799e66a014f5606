"""Exact inference on linear chains of labels: packing, potentials, sweeps, search.

Axes, the same in every module:

    N  packed rows: the segments of a batch, all first positions, then all second ones, ... (packing.py)
    B  sequences, longest first      T  length of the longest      Y  labels
    i, j, k  labels of positions t-2, t-1, t

Potentials (potentials.py) by what they depend on:

    unary     [N, Y]           position and label           bigram   [Y, Y]      labels alone
    edge      [N, Y, Y]        position and label pair      trigram  [Y, Y, Y]   labels alone
    hyperedge [N, Y, Y, Y]     position and label triple

Sums run through sweeps.py, which takes first_order.py or second_order.py on scaled probabilities where scaling.py says
that this is exact, single.py for one sequence, and sums of logs else; search.py has best sequences and samples;
inference.py is what callers use, layer.py the same as a torch layer on padded batches.
"""
