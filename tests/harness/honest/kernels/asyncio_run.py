#!POPCORN leaderboard matmul_py
"""Runs an event loop of asyncio within each call."""

import asyncio

import torch


async def _multiply(a, b, c):
    await asyncio.to_thread(torch.matmul, a, b, out=c)


async def _product(a, b):
    c = torch.empty(a.shape[0], b.shape[1])
    parts = zip(a.chunk(2), c.chunk(2), strict=True)
    await asyncio.gather(*(_multiply(rows, b, result) for rows, result in parts))
    return c


def custom_kernel(data):
    a, b = data
    return asyncio.run(_product(a, b))
