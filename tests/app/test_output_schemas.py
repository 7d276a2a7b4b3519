"""Output schemas promise only what every value keeps, by a table over the types of pydantic and a validator that asserts formats."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple
from uuid import UUID

import pydantic as p
import pytest
from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]

import mcprev
from helpers.running import run
from mcprev.app.results import ToolReturns
from mcprev.app.signatures import Function
from mcprev.errors import LocalProtocolError
from mcprev.json_schema.typed import adapter_of, schema_from
from mcprev.revisions import DEFAULT

CHECKER: Final = FormatChecker()
_DATE = r"\d{4}-\d\d-\d\d"
_TIME = r"\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"
_DURATION = r"P(\d+W|\d+D(T\d+H(\d+M(\d+S)?)?|T\d+M(\d+S)?|T\d+S)?|T\d+H(\d+M(\d+S)?)?|T\d+M(\d+S)?|T\d+S)"
_URI_CHAR = r"([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})"
_OF_RFCS: Final = {
    "date": _DATE,
    "date-time": f"{_DATE}T{_TIME}",
    "time": _TIME,
    "duration": _DURATION,
    "email": r"[!-?A-~]+@[A-Za-z0-9.-]+",
    "ipv4": r"\d{1,3}(\.\d{1,3}){3}",
    "ipv6": r"[0-9a-fA-F:.]+",
    "uri": rf"[A-Za-z][A-Za-z0-9+.-]*:(//\[[0-9a-fA-F:.]+\])?{_URI_CHAR}*(#{_URI_CHAR}*)?",
    "uuid": r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
}
"""The formats that JSON Schema defines, as RFC 3339, 3986, 4122, 4291 and 5321 write them in ASCII."""


def _is_written(expression: str, value: object) -> bool:
    return not isinstance(value, str) or re.fullmatch(expression, value, re.ASCII) is not None


for _name, _expression in _OF_RFCS.items():
    CHECKER.checks(_name)(partial(_is_written, _expression))
KNOWN: Final = frozenset(_OF_RFCS)


class Color(Enum):
    """Of a table."""

    RED = "red"
    BLUE = "blue"


def _described_as_mail(*_: object) -> Any:
    return {"type": "string", "format": "email"}


class Mail(str):
    """A text that pydantic describes as it does its `EmailStr`, without the package that checks it."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:
        from pydantic_core import core_schema

        return core_schema.str_schema(metadata={"pydantic_js_functions": [_described_as_mail]})


class Serialized(p.BaseModel):
    """Its serializers do not say what they return."""

    of_field: int
    plain: Annotated[int, p.PlainSerializer(lambda value: [value])]
    wrapped: Annotated[int, p.WrapSerializer(lambda value, _next: str(value))]
    told: Annotated[int, p.PlainSerializer(str, return_type=str)]

    @p.field_serializer("of_field")
    def as_text(self, value: int):  # type: ignore[no-untyped-def]
        return str(value)


class Whole(p.BaseModel):
    """A model that becomes something else."""

    a: int

    @p.model_serializer
    def as_pair(self):  # type: ignore[no-untyped-def]
        return {"pair": [self.a]}


class InBase64(p.BaseModel):
    """Bytes in base64, whose text is longer than they are."""

    model_config = p.ConfigDict(ser_json_bytes="base64")
    data: Annotated[bytes, p.Field(max_length=3)]


class InSeconds(p.BaseModel):
    """Durations as numbers."""

    model_config = p.ConfigDict(ser_json_timedelta="float")
    took: dt.timedelta


class Point(NamedTuple):
    """Of a table."""

    at: dt.datetime
    to: ipaddress.IPv6Address


NAIVE: Final = dt.datetime(2024, 2, 29, 1, 2, 3)  # noqa: DTZ001 - what this is about
AMSTERDAM: Final = dt.timezone(dt.timedelta(minutes=19, seconds=32))
ZONED: Final = ipaddress.IPv6Address("fe80::1%eth0")
TABLE: Final[list[tuple[Any, list[Any], Mapping[str, object]]]] = [
    # the type, values of it, the schema of a value
    (dt.datetime, [NAIVE, NAIVE.replace(tzinfo=dt.UTC, microsecond=1)], {"type": "string"}),
    (p.NaiveDatetime, [NAIVE], {"type": "string"}),
    (p.PastDatetime, [NAIVE], {"type": "string"}),
    (
        p.AwareDatetime,
        [NAIVE.replace(tzinfo=zone) for zone in (dt.UTC, AMSTERDAM)],
        {"type": "string", "format": "date-time"},
    ),
    (dt.date, [dt.date(1, 1, 1), dt.date(9999, 12, 31)], {"type": "string", "format": "date"}),
    (p.PastDate, [dt.date(2020, 1, 1)], {"type": "string", "format": "date"}),
    (dt.time, [dt.time(1, 2), dt.time(1, 2, 3, 4, tzinfo=dt.UTC)], {"type": "string"}),
    (dt.timedelta, [dt.timedelta(1, 2, 3), -dt.timedelta(1), dt.timedelta()], {"type": "string"}),
    (InSeconds, [{"took": dt.timedelta(0, 1, 5)}], {"took": {"type": "number"}}),
    (Mail, ["ann@example.org", "änn@exämple.org"], {"type": "string"}),
    (ipaddress.IPv4Address, ["127.0.0.1"], {"type": "string", "format": "ipv4"}),
    (ipaddress.IPv6Address, ["::1", ZONED], {"type": "string"}),
    (ipaddress.IPv4Network, ["10.0.0.0/8"], {"type": "string"}),
    (ipaddress.IPv6Interface, ["fe80::1/64"], {"type": "string"}),
    (p.IPvAnyAddress, ["10.0.0.1", ZONED], {"type": "string"}),
    (UUID, [UUID(int=1)], {"type": "string", "format": "uuid"}),
    (p.UUID4, ["0d3a1cb6-6c3c-4c3b-8b2b-0b9d1d3d0a11"], {"type": "string", "format": "uuid"}),
    (p.AnyUrl, ["http://a/?q={x}|^", "foo:bar baz", "http://münchen.de/é#ü{}"], {"type": "string"}),
    (p.HttpUrl, ["http://a/" + "é" * 1000], {"type": "string"}),
    (p.PostgresDsn, ["postgres://u:p@a,b/d"], {"type": "string"}),
    (p.SecretStr, ["x", ""], {"type": "string"}),
    (Annotated[p.SecretStr, p.Field(min_length=12)], ["x" * 12], {"type": "string"}),
    (set[p.SecretStr], [{"a", "b"}], {"type": "array", "items": {"type": "string"}}),
    (frozenset[str], [{"a", "b"}], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
    (set[Color], [{Color.RED}], {"type": "array", "uniqueItems": True}),
    (InBase64, [{"data": b"abc"}], {"data": {"type": "string"}}),
    (p.Base64Bytes, [b"aGFsbG8="], {"type": "string"}),
    (Annotated[p.Base64Str, p.Field(max_length=5)], ["aGFsbG8="], {"type": "string"}),
    (Decimal, [Decimal("1E+10"), Decimal("-0.10")], {"type": "string"}),
    (Annotated[Decimal, p.Field(max_digits=3)], [Decimal("0.10")], {"type": "string"}),
    (Path, [Path("/a b"), Path("ä")], {"type": "string"}),
    (re.Pattern, [r"(?P<name>\Aa)"], {"type": "string"}),
    (Annotated[str, p.Field(pattern=r"^\d+$")], ["1", "\u0663"], {"type": "string"}),
    (Annotated[str, p.Field(pattern=r"^.$")], ["a", "\r"], {"type": "string"}),
    (Annotated[str, p.Field(pattern=r"(?i)^[a-z]+$")], ["AB"], {"type": "string"}),
    (Annotated[str, p.Field(pattern=re.compile("^[a-z]+$", re.IGNORECASE))], ["AB"], {"type": "string"}),
    (Annotated[str, p.Field(pattern=r"^(?:[A-Z]{2,3}|x\.y)-[a-z0-9]+$")], ["AB-c9", "x.y-a"],
     {"type": "string", "pattern": r"^(?:[A-Z]{2,3}|x\.y)-[a-z0-9]+$"}),
    (Annotated[str, p.Field(min_length=1, max_length=2)], ["ä🙂"], {"type": "string", "minLength": 1, "maxLength": 2}),
    (Annotated[float, p.Field(multiple_of=0.1)], [0.3], {"type": "number"}),
    (Annotated[int, p.Field(multiple_of=3, ge=0)], [3], {"type": "integer", "multipleOf": 3, "minimum": 0}),
    (complex, [1 + 2j], {"type": "string"}),
    (p.ByteSize, ["1kb"], {"type": "integer", "minimum": 0}),
    (Literal["a", "b"], ["a"], {"type": "string", "enum": ["a", "b"]}),
    (Serialized, [{"of_field": 1, "plain": 2, "wrapped": 3, "told": 4}],
     {"of_field": {}, "plain": {}, "wrapped": {}, "told": {"type": "string"}}),
    (Whole, [{"a": 1}], {}),
    (dict[dt.datetime, dt.time], [{NAIVE: dt.time(1)}], {"type": "object"}),
    (tuple[dt.timedelta, p.AwareDatetime], [(dt.timedelta(0, 1, 1), NAIVE.replace(tzinfo=dt.UTC))],
     {"type": "array", "prefixItems": [{"type": "string"}, {"type": "string", "format": "date-time"}]}),
    (list[Point], [[Point(NAIVE, ZONED)]], {"type": "array"}),
    (dt.datetime | dt.timedelta | None, [NAIVE, dt.timedelta(0, 0, 1), None], {"anyOf": [{"type": "string"}, {"type": "string"}, {"type": "null"}]}),
]  # fmt: skip
_IDS: Final = [
    f"{number}-{getattr(kind, '__name__', kind)}"[:40] for number, (kind, _, _) in enumerate(TABLE)
]


def formats_of(value: object) -> set[str]:
    """Return the formats that a schema names anywhere."""
    return set(re.findall(r'"format": "([^"]+)"', json.dumps(value)))


@pytest.mark.parametrize(("kind", "values", "says"), TABLE, ids=_IDS)
def test_a_schema_says_what_every_value_keeps(
    kind: Any, values: list[Any], says: Mapping[str, object]
) -> None:
    adapter = adapter_of(kind)
    schema = schema_from(adapter, "serialization")
    Draft202012Validator.check_schema(schema)
    asserting: Any = Draft202012Validator(schema, format_checker=CHECKER)
    for value in values:
        sent = json.loads(json.dumps(adapter.dump_python(adapter.validate_python(value), mode="json")))
        assert [each.message for each in asserting.iter_errors(sent)] == [], (value, schema)
    shown = schema.get("properties", schema)
    assert {name: shown.get(name) for name in says} == says
    if not {"enum", "items", "additionalProperties"} & shown.keys() and shown is schema:
        assert {**says, **({"minItems": 2, "maxItems": 2} if "prefixItems" in says else {})} == schema
    assert (
        formats_of(schema) <= KNOWN
    ), "a strict validator refuses the names of formats that it does not know"


@pytest.mark.parametrize(
    ("kind", "format_"),
    [(dt.datetime, "date-time"), (dt.time, "time"), (dt.timedelta, "duration"), (ipaddress.IPv6Address, "ipv6"),
     (p.AnyUrl, "uri"), (Mail, "email"), (p.UUID4, "uuid4")],
)  # fmt: skip
def test_input_schemas_stay_as_precise_as_they_are_right(kind: Any, format_: str) -> None:
    assert schema_from(adapter_of(kind), "validation")["format"] == format_


def test_a_format_that_the_author_names_stays() -> None:
    kind = Annotated[str, p.Field(json_schema_extra={"format": "iban", "examples": [{"format": "time"}]})]
    schema = schema_from(adapter_of(dict[str, kind]), "serialization")
    assert schema["additionalProperties"] == {
        "type": "string",
        "format": "iban",
        "examples": [{"format": "time"}],
    }


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_a_client_gets_the_value_and_its_schema(row: Any) -> None:
    app = mcprev.App("a", "1")

    @app.tool
    def t() -> Point:
        return Point(NAIVE, ZONED)

    async def main() -> tuple[Any, Any]:
        async with mcprev.connect(app, mode=row.name) as client:
            [tool] = [each async for each in client.tools()]
            return tool.output_schema, await client.call_tool("t", {})

    schema, result = run(main())
    assert json.loads(result.content[0].text) == ["2024-02-29T01:02:03", "fe80::1%eth0"]
    if schema is not None:
        asserting: Any = Draft202012Validator(schema.to_wire(), format_checker=CHECKER)
        assert list(asserting.iter_errors(result.structured_content)) == []


class Measured(p.BaseModel):
    """A model whose schema refers to another."""

    inner: list[InSeconds]
    anything: Any = None
    value: float = 0


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        ({"inner": [], "value": float("nan")}, "structuredContent.value is not of type number"),
        ({"inner": [{"took": dt.timedelta(1)}], "value": float("-inf")}, "structuredContent.value"),
        ({"inner": [], "anything": float("nan")}, None),
    ],
)
def test_a_number_that_json_does_not_have_does_not_become_null_against_the_schema(
    found: object, wrong: str | None
) -> None:
    def measure() -> Measured: ...  # type: ignore[empty-body]

    returns = ToolReturns("measure", Function(measure))
    if wrong is None:
        returns.result(found, DEFAULT[-1])
    else:
        with pytest.raises(LocalProtocolError, match=re.escape(wrong)):
            returns.result(found, DEFAULT[-1])
