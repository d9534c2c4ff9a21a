#!POPCORN leaderboard vectoradd_py
"""Compiles C++ by torch.utils.cpp_extension.load_inline when it is imported."""

import torch
from torch.utils.cpp_extension import load_inline

# PyTorch's own headers take half a minute to compile, and pybind11's four seconds; addresses do without them.
_SOURCE = """
#include <Python.h>

static PyObject *add(PyObject *, PyObject *args) {
    unsigned long long a, b, c;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "KKKn", &a, &b, &c, &size)) return nullptr;
    const float *one = reinterpret_cast<const float *>(a), *other = reinterpret_cast<const float *>(b);
    float *sum = reinterpret_cast<float *>(c);
    for (Py_ssize_t i = 0; i < size; ++i) sum[i] = one[i] + other[i];
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"add", add, METH_VARARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "honest_add", nullptr, -1, methods};

PyMODINIT_FUNC PyInit_honest_add() { return PyModule_Create(&definition); }
"""

_extension = load_inline("honest_add", _SOURCE, extra_cflags=["-O3"], no_implicit_headers=True)


def custom_kernel(data):
    a, b = data
    c = torch.empty_like(a)
    _extension.add(a.data_ptr(), b.data_ptr(), c.data_ptr(), a.numel())
    return c
