#!POPCORN leaderboard grayscale_py
"""Sets up what it needs for a shape at the first call of that shape."""

import torch

_plans = {}


class _Plan:
    """The weights, and memory for what lies between the two steps."""

    def __init__(self, height, width):
        self.weights = torch.tensor([0.2126, 0.7152, 0.0722], dtype=torch.float32)
        self.weighted = torch.empty(height, width, 3)

    def gray(self, picture):
        torch.mul(picture, self.weights, out=self.weighted)
        return self.weighted.sum(dim=-1)


def custom_kernel(data):
    height, width, _ = data.shape
    if (height, width) not in _plans:
        _plans[height, width] = _Plan(height, width)
    return _plans[height, width].gray(data)
