"""Kernels that compute what they are asked for, in many styles: none of them may be refused for its style."""
