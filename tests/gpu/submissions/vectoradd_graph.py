#!POPCORN leaderboard vectoradd_py
"""Vector addition by a CUDA graph of its own for each size, with copies into and out of its memory."""

import torch

GRAPHS = {}


def graph_of(size, like):
    """The graph for a size, its two inputs and its output; it is recorded at the first call with the size."""
    if size not in GRAPHS:
        a, b = torch.empty_like(like), torch.empty_like(like)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            c = a + b
        GRAPHS[size] = graph, a, b, c
    return GRAPHS[size]


def custom_kernel(data):
    graph, a, b, c = graph_of(len(data[0]), data[0])
    a.copy_(data[0])
    b.copy_(data[1])
    graph.replay()
    return c.clone()
