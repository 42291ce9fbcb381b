"""The ``method`` section: a built-in method, or one of your own by import path, imported only when it is built."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Annotated, Any, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PydanticUndefinedAnnotation,
    PydanticUserError,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from pencil.config.explain import explain
from pencil.errors import ConfigError
from pencil.imports import import_object
from pencil.methods import BuiltIn, Method

OWN = ":"  # distinguishes an import path from a built-in name


class OwnMethod(BaseModel):
    """A method of your own: ``name`` is its import path, ``package.module:Name``, the rest are fields of that class."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    name: str

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        """Convert a method object to its import path and fields."""
        if not isinstance(value, Method):
            return value
        fields = (
            _section(type(value)).model_construct(method=value).model_dump(mode="json", exclude_none=True)
        )
        return {**fields["method"], "name": value.name}

    def load(self) -> Method:
        """Import the class and build the method; mistakes in its settings are explained like all others."""
        kind = import_object(self.name, field="method.name")
        if not _is_method_class(kind):
            raise ConfigError(
                f"method.name = {self.name!r}: not a method; use a dataclass that derives from pencil.methods.Method"
            )
        table = {"method": self.model_extra or {}}
        try:
            section = _section(kind)
            found: Any = section.model_validate_json(json.dumps(table, default=str))
        except ValidationError as error:
            raise ConfigError(explain(error, table, section.model_json_schema())) from None
        except (PydanticUserError, PydanticUndefinedAnnotation) as error:
            raise ConfigError(
                f"method.name = {self.name!r}: a field has a type that settings do not support; use numbers, strings, "
                f"booleans, tuples or schedules ({str(error).splitlines()[0]})"
            ) from error
        method: Method = found.method
        return method


def _is_method_class(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Method) and is_dataclass(kind)


def _section(kind: type) -> type[BaseModel]:
    """A section with the fields of a method's class, as strict as the other sections."""
    strict = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    return create_model("OwnSection", __config__=strict, method=(kind, ...))


def name(value: Any) -> str | None:
    """The tag of method settings or of a method object: a built-in name, or ``OWN``."""
    found = value.get("name") if isinstance(value, Mapping) else getattr(value, "name", None)
    if found is None:
        return None
    return OWN if OWN in str(found) else str(found)


class _Choice:
    """How pydantic chooses among the built-in methods and ``OwnMethod``."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        kinds = {kind.name: kind for kind in get_args(BuiltIn)} | {OWN: OwnMethod}
        choices = {tag: handler.generate_schema(kind) for tag, kind in kinds.items()}
        return core_schema.tagged_union_schema(choices, discriminator=name)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """The schema of a union by name, for explanations and the settings page."""
        built_in = handler(schema)["oneOf"][:-1]
        names = (kind.name for kind in get_args(BuiltIn))
        mapping = {tag: each["$ref"] for tag, each in zip(names, built_in, strict=True)}
        return {"oneOf": built_in, "discriminator": {"propertyName": name.__name__, "mapping": mapping}}


MethodSetting = Annotated[BuiltIn | OwnMethod, _Choice()]
