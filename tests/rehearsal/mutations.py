"""Made-up revisions: known changes of the newest contract, drawn by a seed, and what a person decides about each.

A `Mutation` changes the IR of a revision the way upstream changes schema.ts. Beside the change it holds what
the files of the recipe get for it: entries of the overlay, descriptions, and rules of the step module. A plan
takes one mutation of every kind, no two of them about the same type.

What handlers and callers write by name (`Tool`, `TextContent`, the website of an `Implementation`, …) is neither
renamed nor removed: whoever uses it has to be edited, which no generator can spare.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.typescript.printer import print_module
from rehearsal.changes import (
    Change,
    added,
    at_most,
    at_most_items,
    constant,
    in_turn,
    member,
    methods,
    more_members,
    optional,
    own_member,
    removed,
    renamed,
    text,
    without_member,
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a peer gets where the generated tables cannot know: one entry of the step module's `Rules`."""

    direction: str
    """`DOWN` to the revision before, `UP` from it."""
    part: str
    """`substitutes`, `before`, `missing` or `accepted`."""
    key: str
    """The type, in `missing` the member, in `accepted` both."""
    rule: str
    """The name of the rule or, in `accepted`, the reason."""
    code: str = ""
    """The function of that name."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change of a revision's declarations, with what a person decides about it."""

    kind: str
    subject: str
    """The method, type or `Type.member` that it is about."""
    change: Change
    about: frozenset[str]
    """The types that no other mutation of a plan may be about."""
    overlay: tuple[tuple[str, str, str], ...] = ()
    """Pointer, `expected` and `new` of the entries of overlay.toml."""
    types: Mapping[str, str] = field(default_factory=dict[str, str])
    """Descriptions of new types."""
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """Descriptions of new members, by `Type.member`."""
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """One made-up revision: its name, its contract and the mutations that led to it."""

    revision: str
    module: ir.Module
    mutations: tuple[Mutation, ...]

    @property
    def text(self) -> str:
        """The schema.ts of the revision."""
        return print_module(self.module)


def next_revision(newest: str) -> str:
    """The first day of the year after a revision's."""
    return date(date.fromisoformat(newest).year + 1, 1, 1).isoformat()


def plan(module: ir.Module, newest: str, seed: int) -> Plan:
    """The revision that a seed makes of the newest one: one mutation of each kind, in the order of the kinds.

    Raises `ValueError` for a kind of which no mutation fits the module and the mutations before it.
    """
    draw = random.Random(seed)  # noqa: S311 - a reproducible choice, no secret
    name = next_revision(newest)
    taken: set[str] = set()
    chosen: list[Mutation] = []
    changed = constant("LATEST_PROTOCOL_VERSION", name)(module)
    for kind, make in KINDS.items():
        fitting = [m for m in make(module) if not m.about & taken]
        if not fitting:
            raise ValueError(f"no mutation of kind '{kind}' is left")
        mutation = draw.choice(fitting)
        taken |= mutation.about
        chosen.append(mutation)
        changed = mutation.change(changed)
    return Plan(name, changed, tuple(chosen))


# -- messages ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Request:
    stem: str
    method: str
    params: ir.Field
    result: ir.Field
    name_param: str = ""
    """The parameter that the Mcp-Name header repeats."""
    capability: str = ""
    """What gates it where its name does not lead there."""
    params_bases: tuple[str, ...] = ("RequestParams",)
    result_bases: tuple[str, ...] = ("Result",)


_REQUESTS: Final = (
    _Request("DescribeTool", "tools/describe", text("name"), text("summary"), "name"),
    _Request(
        "SearchResources",
        "catalog/search",
        text("query"),
        ir.Field("found", ir.Array(ir.Ref("Resource"))),
        capability="resources",
        params_bases=("PaginatedRequestParams",),
        result_bases=("PaginatedResult", "CacheableResult"),
    ),
    _Request(
        "PreviewPrompt",
        "prompts/preview",
        text("name"),
        ir.Field("preview", ir.Array(ir.Ref("PromptMessage"))),
        "name",
        params_bases=("InputResponseRequestParams",),
    ),
)


def _requests(module: ir.Module) -> Iterator[Mutation]:
    """A request of clients, with its params, its result and the response that carries it."""
    for new in _REQUESTS:
        needed = {*new.params_bases, *new.result_bases}
        if new.method in methods(module) or not needed <= module.types.keys():
            continue
        stem, tags = new.stem, ir.Tags(category=f"`{new.method}`")
        answer: ir.TypeExpr = ir.Ref(f"{stem}Result")
        if "InputResponseRequestParams" in new.params_bases:
            answer = ir.Union((answer, ir.Ref("InputRequiredResult")))
        result = ir.Interface(f"{stem}Result", _refs(new.result_bases), (new.result,), tags=tags)
        carried = ir.Interface(
            f"{stem}ResultResponse",
            (ir.Ref("JSONRPCResultResponse"),),
            (ir.Field("result", answer),),
            tags=tags,
        )
        facts = (("capability", new.capability), ("name_param", new.name_param))
        yield Mutation(
            "request",
            new.method,
            added(
                [*_message(stem, "Request", new.method, new.params_bases, (new.params,)), result, carried],
                {"ClientRequest": f"{stem}Request", "ServerResult": f"{stem}Result"},
            ),
            frozenset({f"{stem}Request"}),
            overlay=tuple((f"{new.method}#{facet}", "", value) for facet, value in facts if value),
            types={
                f"{stem}RequestParams": f"Arguments of `{new.method}`.",
                f"{stem}Request": f"Request of `{new.method}`.",
                f"{stem}Result": f"Outcome of `{new.method}`.",
                f"{stem}ResultResponse": f"Response to `{new.method}`.",
            },
            fields=_described(f"{stem}RequestParams", new.params) | _described(f"{stem}Result", new.result),
        )


_NOTIFICATIONS: Final = (
    # Stem, method, member of the params, sender, and what gates it where its name does not lead there
    ("ToolRetired", "notifications/tools/retired", text("tool"), "Server", None),
    ("ResourceGone", "notifications/catalog/gone", text("uri", format_="uri"), "Server", "resources"),
    ("InputGivenUp", "notifications/input/given_up", text("requestState"), "Client", ""),
)


def _notifications(module: ir.Module) -> Iterator[Mutation]:
    """A notification of either side."""
    for stem, method, param, sender, capability in _NOTIFICATIONS:
        if method not in methods(module):
            name = f"{stem}Notification"
            yield Mutation(
                "notification",
                method,
                added(
                    _message(stem, "Notification", method, ("NotificationParams",), (param,)),
                    {f"{sender}Notification": name},
                ),
                frozenset({name}),
                overlay=() if capability is None else ((f"{method}#capability", "", capability),),
                types={f"{name}Params": f"What `{method}` says.", name: f"Notification of `{method}`."},
                fields=_described(f"{name}Params", param),
            )


def _message(
    stem: str, kind: str, method: str, bases: tuple[str, ...], params: tuple[ir.Field, ...]
) -> list[ir.Decl]:
    """The params of a message, and the message."""
    tags = ir.Tags(category=f"`{method}`")
    name = f"{stem}{kind}"
    members = (ir.Field("method", ir.Lit(method)), ir.Field("params", ir.Ref(f"{name}Params")))
    return [
        ir.Interface(f"{name}Params", _refs(bases), params, tags=tags),
        ir.Interface(name, (ir.Ref(f"JSONRPC{kind}"),), members, tags=tags),
    ]


# -- content -----------------------------------------------------------------------------------------------

_AS_RESOURCE: Final = """\
def _{tag}_to_older(block: JsonObject, _: ConversionContext) -> JsonObject:
    mime, data = block.get("mimeType"), block.get("data")
    uri = f"data:{{quote(str(mime), safe='/')}};base64,{{data}}"
    return {{"type": "resource", "resource": {{"uri": uri, "mimeType": mime, "blob": data}}}}
"""
_AS_TEXT: Final = """\
def _{tag}_to_older(block: JsonObject, _: ConversionContext) -> JsonObject:
    return {{"type": "text", "text": f"{{block.get('title')}}: {{block.get('body')}}"}}
"""
_BLOCKS: Final = (
    ("VideoContent", "video", (text("data", format_="byte"), text("mimeType")), _AS_RESOURCE),
    ("ChartContent", "chart", (text("title"), ir.Field("body", ir.Prim("unknown"))), _AS_TEXT),
    ("QuoteContent", "quote", (text("title"), text("body")), _AS_TEXT),
)


def _blocks(module: ir.Module) -> Iterator[Mutation]:
    """A content block in the union of all of them."""
    for name, tag, members, code in _BLOCKS:
        if name not in module.types:
            fields = (
                ir.Field("type", ir.Lit(tag)),
                *members,
                ir.Field("annotations", ir.Ref("Annotations"), optional=True),
                ir.Field("_meta", ir.Ref("MetaObject"), optional=True),
            )
            block = ir.Interface(name, (), fields, tags=ir.Tags(category="Content"))
            rule = f"_{tag}_to_older"
            yield Mutation(
                "block",
                name,
                added([block], {"ContentBlock": name}),
                frozenset({name}),
                types={name: f"Content of the kind `{tag}`."},
                fields=_described(name, *members),
                decisions=(Decision("DOWN", "substitutes", name, rule, code.format(tag=tag)),),
            )


# -- types -------------------------------------------------------------------------------------------------

_RENAMES: Final[Mapping[str, str]] = {
    "ModelHint": "ModelPreferenceHint",
    "ModelPreferences": "ModelSelection",
    "SubscriptionFilter": "SubscriptionSelection",
    "ProgressNotificationParams": "ProgressParams",
    "ResourceUpdatedNotificationParams": "ResourceUpdateParams",
    "BooleanSchema": "BooleanField",
    "NumberSchema": "NumberField",
    "BaseMetadata": "NamedObject",
}
_REMOVED_TYPES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    # Type, and the members that go with it
    "ModelPreferences": (("CreateMessageRequestParams", "modelPreferences"),),
    "ModelHint": (("ModelPreferences", "hints"),),
    "ToolChoice": (("CreateMessageRequestParams", "toolChoice"),),
    "LegacyTitledEnumSchema": (),
}
_REMOVED_FOR: Final = {
    "LegacyTitledEnumSchema": Decision(
        "UP",
        "accepted",
        "ElicitRequestFormParamsRequestedSchema.properties",
        '"an enum that has names keeps its values; who does not know the names passes over them"',
    ),
}
"""What is decided where members of unions were of a type that is gone."""


def _renames(module: ir.Module) -> Iterator[Mutation]:
    """A type that has another name and says the same."""
    for name, other in _RENAMES.items():
        if name in module.types and other not in module.types:
            yield Mutation(
                "rename",
                name,
                renamed(name, other),
                frozenset({name, other}),
                overlay=((f"{other}#was", "interface", name),),
                types={other: f"What was `{name}` before."},
            )


def _removed_types(module: ir.Module) -> Iterator[Mutation]:
    """A type that is no more, and the members that had it."""
    for name, places in _REMOVED_TYPES.items():
        if {name, *(owner for owner, _ in places)} <= module.types.keys():
            yield Mutation(
                "removed type",
                name,
                in_turn(*(without_member(*place) for place in places), removed(name)),
                frozenset({name, *(owner for owner, _ in places)}),
                decisions=(_REMOVED_FOR[name],) if name in _REMOVED_FOR else (),
            )


# -- members -----------------------------------------------------------------------------------------------

_REMOVED_MEMBERS: Final = (
    ("Annotations", "lastModified"),
    ("ToolAnnotations", "openWorldHint"),
    ("ToolAnnotations", "idempotentHint"),
    ("Implementation", "websiteUrl"),
    ("Icon", "theme"),
)
_MORE_MEMBERS: Final = (
    ("Tool", ir.Field("retired", ir.Prim("boolean"), optional=True)),
    ("Resource", text("checksum", optional=True)),
    ("Prompt", ir.Field("labels", ir.Array(ir.Prim("string")), optional=True)),
    ("PromptMessage", text("speaker", optional=True)),
    ("CallToolRequestParams", text("locale", optional=True)),
)
_MADE_OPTIONAL: Final = (
    # Type, member, what an older peer gets where it is left out
    ("SamplingMessage", "role", '"user"'),
    ("ElicitRequestFormParams", "message", '""'),
    ("PromptMessage", "role", '"user"'),
    ("ImageContent", "mimeType", '"image/png"'),
)
_MADE_REQUIRED: Final = (
    # Type, member, what a newer peer gets where an older one left it out
    ("ModelHint", "name", '""'),
    ("PromptArgument", "required", "False"),
    ("Icon", "mimeType", '"image/png"'),
    ("ToolAnnotations", "readOnlyHint", "False"),
)
_FILL: Final = """\
def _with_{member}(value: JsonObject, _: ConversionContext) -> JsonObject:
    return value if "{member}" in value else {{**value, "{member}": {value}}}
"""


def _removed_members(module: ir.Module) -> Iterator[Mutation]:
    """An optional member that is no more."""
    for owner, name in _REMOVED_MEMBERS:
        if (found := own_member(module, owner, name)) and found.optional:
            yield Mutation(
                "removed member", f"{owner}.{name}", without_member(owner, name), frozenset({owner})
            )


def _more_members(module: ir.Module) -> Iterator[Mutation]:
    """An optional member more."""
    for owner, new in _MORE_MEMBERS:
        if owner in module.types and own_member(module, owner, new.name) is None:
            yield Mutation(
                "optional member",
                f"{owner}.{new.name}",
                more_members(owner, new),
                frozenset({owner}),
                fields=_described(owner, new),
            )


def _made_optional(module: ir.Module) -> Iterator[Mutation]:
    """A required member that may be left out; who does not know that gets a value."""
    for owner, name, value in _MADE_OPTIONAL:
        if (found := own_member(module, owner, name)) and not found.optional:
            yield _turned("made optional", owner, name, "DOWN", value)


def _made_required(module: ir.Module) -> Iterator[Mutation]:
    """An optional member that may no longer be left out; what comes without it gets a value."""
    for owner, name, value in _MADE_REQUIRED:
        if (found := own_member(module, owner, name)) and found.optional:
            yield _turned("made required", owner, name, "UP", value)


def _turned(kind: str, owner: str, name: str, direction: str, value: str) -> Mutation:
    code = _FILL.format(member=name, value=value)
    return Mutation(
        kind,
        f"{owner}.{name}",
        member(owner, name, optional(optional=direction == "DOWN")),
        frozenset({owner}),
        decisions=(Decision(direction, "missing", name, f"_with_{name}", code),),
    )


# -- bounds ------------------------------------------------------------------------------------------------

_CUT: Final = """\
def _fewer_values(completion: JsonObject, _: ConversionContext) -> JsonObject:
    values = as_list(completion.get("values")) or []
    return completion if len(values) <= {most} else {{**completion, "values": values[:{most}], "hasMore": True}}
"""
_CLAMP: Final = """\
def _not_above(value: JsonObject, _: ConversionContext) -> JsonObject:
    given = value.get("{member}")
    return {{**value, "{member}": {most}}} if isinstance(given, int | float) and given > {most} else value
"""


def _bounds(module: ir.Module) -> Iterator[Mutation]:
    """A list or a number that may be larger or smaller than before."""
    values = own_member(module, "CompleteResult", "completion.values")
    if values is not None and values.tags.max_items:
        present = values.tags.max_items
        for most in (present // 2, present * 2):
            code = _CUT.format(most=min(most, present))
            direction = "UP" if most < present else "DOWN"
            yield Mutation(
                "bound",
                f"CompleteResult.completion.values at most {most}",
                member("CompleteResult", "completion.values", at_most_items(most)),
                frozenset({"CompleteResult"}),
                decisions=(Decision(direction, "before", "CompleteResultCompletion", "_fewer_values", code),),
            )
    for owner, name in (("ModelPreferences", "costPriority"), ("Annotations", "priority")):
        found = own_member(module, owner, name)
        if found is not None and found.tags.maximum and found.tags.maximum < 10:
            code = _CLAMP.format(member=name, most=found.tags.maximum)
            yield Mutation(
                "bound",
                f"{owner}.{name} at most 10",
                member(owner, name, at_most(10)),
                frozenset({owner}),
                decisions=(Decision("DOWN", "before", owner, "_not_above", code),),
            )


# -- all of them -------------------------------------------------------------------------------------------


def _refs(names: tuple[str, ...]) -> tuple[ir.Ref, ...]:
    return tuple(ir.Ref(name) for name in names)


def _described(owner: str, *members: ir.Field) -> dict[str, str]:
    return {f"{owner}.{f.name}": f"What the specification says of `{f.name}`." for f in members}


KINDS: Final[Mapping[str, Callable[[ir.Module], Iterator[Mutation]]]] = {
    "request": _requests,
    "notification": _notifications,
    "block": _blocks,
    "rename": _renames,
    "removed type": _removed_types,
    "removed member": _removed_members,
    "bound": _bounds,
    "optional member": _more_members,
    "made optional": _made_optional,
    "made required": _made_required,
}
"""Every kind of change, with what makes the mutations that fit a module."""
