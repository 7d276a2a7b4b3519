"""A protocol with a few types, and an edit of it for every rule that an edit of a file can trigger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BASE: Final = """\
export const LATEST_PROTOCOL_VERSION = "0.1";
export const JSONRPC_VERSION = "2.0";
export const LIMIT = "7";
export const LOST = -32001;

export type RequestId = string | number;
export type Colour = "red" | "green";
export type Shade = "dark" | "light" | string;
export type Block = Text | Image;
export type Loose = Text | Draft;

/** @category Things */
export interface Text { type: "text"; text: string; }
/** @category Things */
export interface Image {
  type: "image";
  /** @format byte */
  data: string;
}
export interface Draft { body?: string; }
export interface Unused { nothing: string; }

export interface Base { note?: string; }
/** Some thing. */
export interface Thing extends Base {
  name: string;
  label?: string;
  colour: Colour;
  shade: Shade;
  block: Block;
  /** @minimum 0
   * @default 0 */
  size?: number;
  spot: { x: number; y?: number };
  tags: string[];
  extra: { [key: string]: unknown };
}
export interface Open { a?: string; [key: string]: unknown }
export interface Closed { a?: string }
export interface Spot2 { x: number; y?: number }

export interface Request { method: string; params?: { [key: string]: any }; }
export interface Notification { method: string; params?: { [key: string]: any }; }
export interface JSONRPCRequest extends Request { jsonrpc: typeof JSONRPC_VERSION; id: RequestId; }
export interface JSONRPCNotification extends Notification { jsonrpc: typeof JSONRPC_VERSION; }
export interface Result { [key: string]: unknown }
export type EmptyResult = Result;

export interface MakeRequestParams { thing: Thing; open: Open; closed: Closed; loose: Loose; }
export interface MakeRequest extends JSONRPCRequest { method: "make"; params: MakeRequestParams; }
export interface MakeResult extends Result { made: Thing; }
export interface OtherResult extends Result { other: string; }
export interface LookRequestParams { name: string; }
export interface LookRequest extends JSONRPCRequest { method: "look"; params?: LookRequestParams; }
export interface DoneNotification extends JSONRPCNotification { method: "done"; params: LookRequestParams; }

export interface PokeNotification extends Notification { method: "poke"; params: LookRequestParams; }

export type ClientRequest = MakeRequest | LookRequest;
export type ServerRequest = LookRequest;
export type ClientNotification = DoneNotification | PokeNotification;
export type ServerNotification = DoneNotification;
export type ClientResult = EmptyResult;
export type ServerResult = EmptyResult | MakeResult | OtherResult;
"""


@dataclass(frozen=True)
class Edit:
    """One change of the mini protocol's text and what the comparison has to say of it."""

    rule: str
    """`rule:case`; the mirror is what the way back must say."""
    path: str
    replace: tuple[tuple[str, str], ...]

    def applied(self) -> str:
        """The edited text."""
        text = BASE
        for old, new in self.replace:
            assert old in text, old
            text = text.replace(old, new, 1)
        return text


def _edit(rule: str, path: str, *replace: tuple[str, str]) -> Edit:
    return Edit(rule, path, replace)


_PING = 'export interface PingRequest extends JSONRPCRequest { method: "ping" }\n'
_NEWS = 'export interface NewsNotification extends JSONRPCNotification { method: "news"; params: Closed; }\n'

_OTHER: Final = "export interface OtherResult"


def _response(result: str) -> str:
    return f"export interface MakeResultResponse {{ result: {result} }}\n"


EDITS: Final = (
    _edit(
        "method-added:request", "method:ping",
        ("export interface Result ", _PING + "export interface Result "),
        ("ClientRequest = MakeRequest", "ClientRequest = PingRequest | MakeRequest"),
    ),
    _edit(
        "method-added:notification", "method:news",
        ("export interface Result ", _NEWS + "export interface Result "),
        ("ClientNotification = DoneNotification", "ClientNotification = NewsNotification | DoneNotification"),
    ),
    _edit("direction-added:request", "method:make", ("ServerRequest = L", "ServerRequest = MakeRequest | L"),
          ("ClientResult = EmptyResult", "ClientResult = EmptyResult | MakeResult")),
    _edit("direction-removed:notification", "method:done",
          ("export type ServerNotification = DoneNotification;\n", "")),
    _edit(
        "transport-changed:any", "method:look",
        ("ServerRequest = LookRequest", "InputRequest = LookRequest"),
        ("ClientRequest = MakeRequest | LookRequest", "ClientRequest = MakeRequest"),
        ("export type ClientResult", "export type InputResponse = EmptyResult;\nexport type ClientResult"),
    ),
    _edit("params-required:any", "method:look", ("params?: LookRequestParams", "params: LookRequestParams")),
    _edit(
        "result-changed:equal", "method:make",
        ("ServerResult = ", "ServerResult = SameResult | "),
        (_OTHER, _response("SameResult") + "export interface SameResult extends Result { made: Thing }\n" + _OTHER),
    ),
    _edit("result-changed:other", "method:make", (_OTHER, _response("OtherResult") + _OTHER)),
    _edit("result-changed:wider", "method:make", (_OTHER, _response("Result") + _OTHER)),
    _edit("result-alternate-added:any", "method:make", (_OTHER, _response("MakeResult | OtherResult") + _OTHER)),
    _edit("type-added:any", "Fresh", ("export interface Unused", "export interface Fresh {}\nexport interface Unused")),
    _edit("type-renamed:any", "PlainText", ("interface Text ", "interface PlainText "), ("= Text |", "= PlainText |"),
          ("= Text |", "= PlainText |")),
    _edit("type-kind-changed:moved", "Text", ("interface Text ", "interface PlainText "),
          ("export type Loose", "export type Text = PlainText | Image;\nexport type Loose")),
    _edit("type-kind-changed:wider", "Draft",
          ("export interface Draft { body?: string; }", "export type Draft = string | { [key: string]: unknown };")),
    _edit("type-kind-changed:other", "Draft", ("export interface Draft { body?: string; }", "export type Draft = string;")),
    _edit("type-kind-changed:equal", "Draft",
          ("export interface Draft { body?: string; }", "export type Draft = Record<string, unknown>;")),
    _edit("name-reused:any", "Spot2",
          ("export interface Spot2 { x: number; y?: number }",
           "export interface Spot2 { kind: number }\nexport interface OldSpot2 { x: number; y?: number }"),
          ("closed: Closed;", "closed: Closed; spot: OldSpot2;")),
    _edit("base-added:any", "Image", ("interface Image {", "interface Image extends Base {")),
    _edit("openness-changed:opened", "Closed", ("Closed { a?: string }", "Closed { a?: string; [key: string]: unknown }")),
    _edit("openness-changed:typed", "Closed", ("Closed { a?: string }", "Closed { a?: string; [key: string]: string }")),
    _edit("deprecated:any", "Unused", ("export interface Unused", "/** @deprecated */\nexport interface Unused")),
    _edit("deprecated:any", "Thing.name", ("  name: string;\n  label", "  /** @deprecated */\n  name: string;\n  label")),
    _edit("internal:any", "Unused", ("export interface Unused", "/** @internal */\nexport interface Unused")),
    _edit("field-added-optional:any", "Thing.fresh", ("  name: string;\n", "  name: string;\n  fresh?: string;\n")),
    _edit("field-added-required:any", "Thing.fresh", ("  name: string;\n", "  name: string;\n  fresh: string;\n")),
    _edit("field-added-optional:singled-out", "Open.b",
          ("Open { a?: string; [key: string]: unknown }", "Open { a?: string; b?: string }")),
    _edit("field-added-optional:envelope", "PokeNotification.jsonrpc",
          ('Notification { method: "poke";', 'Notification { jsonrpc?: typeof JSONRPC_VERSION; method: "poke";')),
    _edit("field-removed:envelope-required", "LookRequest.id",
          ("LookRequest extends JSONRPCRequest", "LookRequest extends Request")),
    _edit("field-became-required:any", "Thing.label", ("label?: string", "label: string")),
    _edit("field-moved-to-base:any", "Thing.name", ("  name: string;\n  label", "  label"),
          ("Base { note?: string; }", "Base { note?: string; name: string; }")),
    _edit("field-extracted:any", "Thing.spot", ("spot: { x: number; y?: number }", "spot: ThingSpot"),
          ("export interface Unused", "export interface ThingSpot { x: number; y?: number }\nexport interface Unused")),
    _edit("type-widened:any", "Thing.name", ("  name: string;\n  label", "  name: string | number;\n  label")),
    _edit("type-changed:any", "Thing.name", ("  name: string;\n  label", "  name: boolean;\n  label")),
    _edit("type-equivalent:any", "Thing.extra",
          ("extra: { [key: string]: unknown }", "extra: Record<string, unknown>")),
    _edit("literal-added:any", "Colour", ('"green"', '"green" | "blue"')),
    _edit("open-literal-added:any", "Shade", ('"dark" |', '"dark" | "pale" |')),
    _edit("union-member-added:any", "Block", ("Block = Text", "Block = Spot2 | Text")),
    _edit("union-member-added:covered", "Loose", ("Loose = Text", "Loose = Closed | Text")),
    _edit("union-member-reordered:any", "Loose", ("Loose = Text | Draft", "Loose = Draft | Text")),
    _edit("nullable-added:any", "Thing.name", ("  name: string;\n  label", "  name: string | null;\n  label")),
    _edit("constraint-tightened:any", "Thing.size", ("@minimum 0", "@minimum 1")),
    _edit("constraint-tightened:any", "Thing.tags", ("  tags:", "  /** @maxItems 3 */\n  tags:")),
    _edit("format-changed:removed", "Image.data", ("  /** @format byte */\n", "")),
    _edit("format-changed:replaced", "Image.data", ("@format byte", "@format uri")),
    _edit("default-changed:replaced", "Thing.size", ("@default 0", "@default 1")),
    _edit("default-changed:removed", "Thing.size", ("\n   * @default 0", "")),
    _edit("constant-added:any", "FRESH", ("export const LOST", 'export const FRESH = "x";\nexport const LOST')),
    _edit("constant-changed:version", "LATEST_PROTOCOL_VERSION", ('"0.1"', '"0.2"')),
    _edit("constant-changed:sent", "JSONRPC_VERSION", ('"2.0"', '"3.0"')),
    _edit("constant-changed:unsent", "LIMIT", ('"7"', '"8"')),
    _edit("error-code-added:any", "FOUND", ("export const LOST", "export const FOUND = -32002;\nexport const LOST")),
    _edit("error-code-changed:any", "LOST", ("-32001", "-32003")),
    _edit("category-changed:any", "Text", ("@category Things", "@category Words")),
    _edit("doc-changed:any", "Thing", ("Some thing.", "Some other thing.")),
)  # fmt: skip
