"""Frozen values whose classes are made at once: a dataclass compiles its methods at import, for half a millisecond."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

if TYPE_CHECKING:
    from dataclasses import Field
    from typing import dataclass_transform
else:  # Python 3.10 has none

    def dataclass_transform(**_: object) -> Callable[[type], type]:
        """Stand in for the mark that type checkers read."""
        return lambda base: base


T = TypeVar("T")


class _Made:
    """The default of a field of which each value gets one of its own."""

    def __init__(self, factory: Callable[[], Any]) -> None:
        self.factory = factory


def made(*, default_factory: Callable[[], T]) -> T:
    """Return the default of a field that is made for each value."""
    return cast("T", _Made(default_factory))


class _DataclassFields:
    """The fields as the module dataclasses has them, made when its `replace`, `asdict` or `fields` first asks."""

    def __get__(self, _: object, owner: "type[Value]") -> "dict[str, Field[Any]]":
        from dataclasses import field, make_dataclass

        defaults = {name: field(default=value) for name, value in owner._defaults.items()}  # noqa: SLF001
        defaults |= {name: field(default_factory=factory) for name, factory in owner._factories.items()}  # noqa: SLF001
        types = owner.__annotations__
        members = [(name, types[name], defaults.get(name, field())) for name in owner.__match_args__]
        # Without a docstring, the module inspects the class for one, which takes as long as loading it.
        described = {"__doc__": owner.__name__}
        plain: Any = make_dataclass(owner.__name__, members, namespace=described, init=False, repr=False, eq=False)
        found: dict[str, Field[Any]] = plain.__dataclass_fields__
        owner.__dataclass_fields__ = found
        return found


@dataclass_transform(frozen_default=True, field_specifiers=(made,))
class Value:
    """A frozen dataclass in everything but its making: fields are a subclass's annotations, equal ones are equal."""

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
        __match_args__: ClassVar[tuple[str, ...]]
    else:
        __dataclass_fields__ = _DataclassFields()
        __match_args__ = ()
    _defaults: ClassVar[dict[str, Any]]
    _factories: ClassVar[dict[str, Callable[[], Any]]]

    def __init_subclass__(cls) -> None:
        names = tuple(cls.__annotations__)
        type.__setattr__(cls, "__match_args__", names)
        given = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
        cls._factories = {name: value.factory for name, value in given.items() if isinstance(value, _Made)}
        cls._defaults = {name: value for name, value in given.items() if name not in cls._factories}
        for name in cls._factories:
            delattr(cls, name)

    def __init__(self, *args: Any, **named: Any) -> None:
        names = self.__match_args__
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__} takes {len(names)} values, not {len(args)}")
        fields = dict(zip(names, args))  # noqa: B905 - the others have names, or defaults
        for name, value in named.items():
            if name in fields or name not in names:
                raise TypeError(f"{type(self).__name__} got {name} twice, or has no such field")
            fields[name] = value
        if len(fields) < len(names):
            self._fill(fields)
        self.__dict__.update(fields)

    def _fill(self, fields: dict[str, Any]) -> None:
        for name in self.__match_args__:
            if name in fields:
                continue
            if name in self._factories:
                fields[name] = self._factories[name]()
            elif name in self._defaults:
                fields[name] = self._defaults[name]
            else:
                raise TypeError(f"{type(self).__name__} lacks {name}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        fields = zip(self.__match_args__, self._values(), strict=True)
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in fields)})"

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__match_args__])
