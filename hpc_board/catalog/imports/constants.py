"""Values of Python expressions that are data: literals, whole-number arithmetic, names, ranges and comprehensions.

Nothing is executed. Every value is bounded in size, as a source may write 9**9**9.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_ITEMS_MAX = 10_000
_NUMBER_MAX = 2**63
_EXPONENT_MAX = 64
_DEPTH_MAX = 50
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}


def constant(node: ast.AST, names: Mapping[str, Any], depth: int = 0) -> Any:
    """Return the value of an expression, in which `names` are known.

    Raises:
        ValueError: it is not data, or exceeds a limit.
    """
    if depth > _DEPTH_MAX:
        raise ValueError("nested too deep")
    match node:
        case ast.Constant(value=None | bool() | int() | float() | str()):
            return node.value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.UnaryOp(op=ast.USub()):
            return -_number(constant(node.operand, names, depth + 1))
        case ast.BinOp():
            return _result(node, names, depth)
        case ast.Tuple() | ast.List():
            items = [constant(each, names, depth + 1) for each in node.elts]
            return tuple(items) if isinstance(node, ast.Tuple) else items
        case ast.Dict():
            keys = [constant(key, names, depth + 1) for key in node.keys if key is not None]
            if len(keys) == len(node.values) and all(isinstance(key, (str, int)) for key in keys):
                return dict(zip(keys, (constant(each, names, depth + 1) for each in node.values), strict=True))
        case ast.Call(func=ast.Name(id="list" | "tuple" as kind), args=[inner], keywords=[]):
            items = list(_items(constant(inner, names, depth + 1)))
            return tuple(items) if kind == "tuple" else items
        case ast.Call(func=ast.Name(id="range"), args=args, keywords=[]):
            bounds = [constant(each, names, depth + 1) for each in args]
            if 1 <= len(bounds) <= 3 and all(type(each) is int for each in bounds) and bounds[2:] != [0]:
                return list(_items(range(*bounds)))
        case ast.ListComp(elt=inner, generators=[ast.comprehension(target=ast.Name(id=name), ifs=[]) as loop]):
            items = _items(constant(loop.iter, names, depth + 1))
            return [constant(inner, {**names, name: each}, depth + 1) for each in items]
    raise ValueError(f"{ast.unparse(node)[:80]} is not data")


def assigned(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each constant that is assigned at the top of a file."""
    known: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and all(isinstance(each, ast.Name) for each in node.targets):
            try:
                value = constant(node.value, known)
            except (ValueError, ArithmeticError, TypeError, RecursionError):
                continue
            for each in node.targets:
                if isinstance(each, ast.Name):
                    known[each.id] = value
                    yield each.id, value


def _result(node: ast.BinOp, names: Mapping[str, Any], depth: int) -> Any:
    left, right = (_number(constant(each, names, depth + 1)) for each in (node.left, node.right))
    if (isinstance(node.op, (ast.Pow, ast.LShift)) and abs(right) > _EXPONENT_MAX) or type(node.op) not in _OPERATORS:
        raise ValueError(f"{ast.unparse(node)[:80]} is not data")
    return _number(_OPERATORS[type(node.op)](left, right))


def _number(value: Any) -> Any:
    if type(value) not in (int, float) or abs(value) >= _NUMBER_MAX:
        raise ValueError("not a number of at most 64 bits")
    return value


def _items(value: Any) -> Any:
    if not isinstance(value, (list, tuple, range)) or len(value) > _ITEMS_MAX:
        raise ValueError(f"not a list of at most {_ITEMS_MAX:,} items")
    return value
