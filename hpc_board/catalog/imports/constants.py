"""Values of Python expressions that are data: literals, whole-number arithmetic, names, ranges and comprehensions.

Nothing is executed. Every value is bounded in size, as a source may write 9**9**9.
"""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_PARTS_MAX = 100_000
"""The most parts of all values of a file, each counted as often as it is used."""

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


class Constants:
    """The constants that are assigned at the top of a file, and the values of expressions in which they are known."""

    def __init__(self, tree: ast.Module) -> None:
        """Read the assignments of a file; those that are not data are left out."""
        self.values: dict[str, Any] = {}
        self._left = _PARTS_MAX
        for node in tree.body:
            if isinstance(node, ast.Assign) and all(isinstance(each, ast.Name) for each in node.targets):
                value = self.of(node.value)
                names = [each.id for each in node.targets if isinstance(each, ast.Name)]
                self.values |= dict.fromkeys(names, value) if value is not None else {}

    def of(self, node: ast.AST) -> Any:
        """Return the value of an expression; None if it is not data, or exceeds a limit."""
        try:
            return self._value(node, self.values, 0)
        except (ValueError, ArithmeticError, TypeError, RecursionError):
            return None

    def _value(self, node: ast.AST, names: Mapping[str, Any], depth: int) -> Any:
        self._spend(1)
        if depth > _DEPTH_MAX:
            raise ValueError("nested too deep")

        def value(inner: ast.AST) -> Any:
            return self._value(inner, names, depth + 1)

        match node:
            case ast.Constant(value=None | bool() | int() | float() | str()):
                return node.value
            case ast.Name(id=name) if name in names:
                self._spend_on(names[name])
                return names[name]
            case ast.UnaryOp(op=ast.USub()):
                return -_number(value(node.operand))
            case ast.BinOp() if type(node.op) in _OPERATORS:
                left, right = _number(value(node.left)), _number(value(node.right))
                if not isinstance(node.op, (ast.Pow, ast.LShift)) or abs(right) <= _EXPONENT_MAX:
                    return _number(_OPERATORS[type(node.op)](left, right))
            case ast.Tuple() | ast.List():
                items = [value(each) for each in node.elts]
                return tuple(items) if isinstance(node, ast.Tuple) else items
            case ast.Dict():
                keys = [value(key) for key in node.keys if key is not None]
                if len(keys) == len(node.values) and all(isinstance(key, (str, int)) for key in keys):
                    return dict(zip(keys, map(value, node.values), strict=True))
            case ast.Call(func=ast.Name(id=function), args=args, keywords=[]):
                return self._called(function, [value(each) for each in args])
            case ast.ListComp(elt=inner, generators=[ast.comprehension(target=ast.Name(id=name), ifs=[]) as loop]):
                self._spend(len(names))
                known, found = dict(names), []
                for known[name] in _items(value(loop.iter)):
                    found.append(self._value(inner, known, depth + 1))
                return found
        raise ValueError(f"{type(node).__name__} is not data")

    def _called(self, function: str, args: Sequence[Any]) -> Any:
        match function, args:
            case "list", [inner]:
                return list(_items(inner))
            case "tuple", [inner]:
                return tuple(_items(inner))
            case "range", [*bounds] if all(type(each) is int for each in bounds):
                numbers = range(*bounds)
                self._spend(len(numbers))
                return list(numbers)
        raise ValueError(f"{function}() is not data")

    def _spend(self, parts: int) -> None:
        if parts > self._left:
            raise ValueError("too much data")
        self._left -= parts

    def _spend_on(self, value: Any) -> None:
        """Count a value as often as it is used: lists of the same list grow by powers."""
        self._spend(1)
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
            self._spend_on(each)


def _number(value: Any) -> Any:
    if type(value) not in (int, float) or abs(value) >= _NUMBER_MAX:
        raise ValueError("not a number of at most 64 bits")
    return value


def _items(value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        raise TypeError("not a list")
    return value
