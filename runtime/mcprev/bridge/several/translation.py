"""Payloads between a client and one of several servers, at the revision of the client: names, URIs and ids (SEC-5).

Strings are replaced by type, at the places that the revision's schema has; texts and untyped values stay as they are.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from mcprev.bridge.several.names import Names, Naming
from mcprev.bridge.several.options import PROMPTS, RESOURCES, TOOLS
from mcprev.bridge.several.places import READ_FOLDER, Changes, Entries, Mark, ObjectRewrite, Places
from mcprev.bridge.several.seals import Seals
from mcprev.conversion.rules import JsonObject, as_list, as_object
from mcprev.errors import InvalidParams, Json
from mcprev.protocol.mrtr import RESPONSES
from mcprev.protocol.subscriptions import CHANGES, TASK_IDS, Changed
from mcprev.protocol.tasks import TASK, TASK_NOTIFICATION
from mcprev.wire.json_values import is_json_object
from mcprev.wire.meta_keys import RELATED

_TASK_ID: Final = "taskId"
_TASKS: Final = "tasks/"
_UI, _UI_PAGE, _PAGE = "ui", "ui/resourceUri", "resourceUri"
"""Where a tool names the page for its results (`mcprev.extensions.ui`)."""
_URL_ERROR: Final = "URLElicitationRequiredErrorError"
_INPUTS: Final = "inputRequests"


class Translation:
    """Translates between one client and one server."""

    def __init__(
        self, places: Places, names: Names, naming: Naming, seals: Seals, principal: str | None
    ) -> None:
        self._places = places
        self._names = names
        self.naming = naming
        self._seals = seals
        self.principal = principal
        self._outward = Changes(
            uri=partial(names.uri, naming),
            task=lambda id_: seals.task(naming.server, id_, principal),
            visit=naming.name,
            skill=naming.uri,
        )
        own = naming.own_uri
        self._inward = Changes(uri=own, task=self._own_task, visit=self._own_visit, skill=own)
        # Tasks that the client runs for a server are that server's alone, too.
        self._asking = replace(self._outward, task=self._asked_task)
        self._answering = replace(self._inward, task=self._answered_task)

    def _asked_task(self, id_: str) -> str:
        server, own = self._seals.own_task(id_, None)
        if server != self.naming.server:
            raise InvalidParams("Invalid params: the task belongs to another server")
        return own

    def _answered_task(self, id_: str) -> str:
        return self._seals.task(self.naming.server, id_, None)

    def _own_task(self, id_: str) -> str:
        server, own = self._seals.own_task(id_, self.principal)
        if server != self.naming.server:
            raise InvalidParams("Invalid params: the task belongs to another server")
        return own

    def _own_visit(self, id_: str) -> str:
        return id_.removeprefix(self.naming.name(""))

    # -- to the client -------------------------------------------------------------------------------------------

    def result(self, method: str, result: JsonObject) -> JsonObject:
        """Return a result of the server for the client."""
        if method == READ_FOLDER:
            result = self._offered(result)
        is_task = result.get("resultType") == TASK or (method.startswith(_TASKS) and _TASK_ID in result)
        found = self.task(result) if is_task else self._out(self._places.result(method), result)
        return self._related(found, self._outward)

    def _offered(self, folder: JsonObject) -> JsonObject:
        """Return a folder of a skill without what the client is not offered."""
        entries = [as_object(each) for each in as_list(folder.get("resources")) or ()]
        offer = self.naming.offer
        return {
            **folder,
            "resources": [each for each in entries if offer.allows(RESOURCES, str(each.get("uri")))],
        }

    def task(self, value: JsonObject) -> JsonObject:
        """Return the members of a task of the extension for the client."""
        found = {**value}
        if isinstance(value.get(_TASK_ID), str):
            found[_TASK_ID] = self._outward.task(value[_TASK_ID])
        for member, rewrite in (
            ("result", self._places.result("tools/call")),
            (_INPUTS, self._places.typed("InputRequests")),
        ):
            if member in value:
                found[member] = self._out(rewrite, as_object(value[member]))
        return found

    def error(self, error: JsonObject) -> JsonObject:
        """Return an error of the server for the client."""
        return self._out(self._places.typed(_URL_ERROR), error)

    def to_client(self, method: str, params: JsonObject | None) -> JsonObject | None:
        """Return the params of a notification or request of the server for the client."""
        if params is None:
            return None
        if method == TASK_NOTIFICATION:
            return self.task(params)
        rewrite = self._places.params(method)
        changes = self._asking if method.startswith(_TASKS) else self._outward
        found = params if rewrite is None else rewrite(params, changes)
        return self._related(found, self._outward)

    def tells(self, method: str, params: JsonObject | None) -> bool:
        """Return whether a client may know of a notification: not of a change of what it is not offered."""
        if method != CHANGES[Changed.RESOURCE].method:
            return True
        return self.naming.offer.allows(RESOURCES, str((params or {}).get("uri")))

    def entry(self, entries: Entries, entry: JsonObject) -> JsonObject | None:
        """Return an entry of a list for the client, or None for one that it is not offered."""
        key, offer = entry.get(entries.key), self.naming.offer
        if entries.mark is Mark.TASK:
            return entry
        if not isinstance(key, str):
            return None
        shown = offer.shown(entries.kind, key)
        if shown is None:
            return None
        found = {**entry}
        text = offer.description(entries.kind, key)
        if text is not None and entries.mark is not Mark.SKILL:
            found["description"] = text
        if entries.mark is Mark.NAME:
            found["name"] = self._names.name(self.naming, entries.kind, shown)
            if entries.kind == TOOLS:
                self._name_page(found)
        return found

    def page(self, method: str, page: JsonObject, entries: Entries) -> list[JsonObject]:
        """Return the entries of a page of the server for the client."""
        given = [as_object(item) for item in as_list(page.get(entries.member)) or ()]
        kept = [found for item in given if (found := self.entry(entries, item)) is not None]
        found = self._out(self._places.result(method), {**page, entries.member: kept})
        listed: list[JsonObject] = found[entries.member]
        return listed

    def _name_page(self, tool: JsonObject) -> None:
        meta = as_object(tool.get("_meta"))
        said, changed = meta.get(_UI), dict[str, Json]()
        if is_json_object(said) and isinstance(page := said.get(_PAGE), str):
            changed[_UI] = {**said, _PAGE: self._outward.uri(page)}
        if isinstance(meta.get(_UI_PAGE), str):
            changed[_UI_PAGE] = self._outward.uri(meta[_UI_PAGE])
        if changed:
            tool["_meta"] = {**meta, **changed}

    def _out(self, rewrite: ObjectRewrite | None, value: JsonObject) -> JsonObject:
        return value if rewrite is None else rewrite(value, self._outward)

    # -- to the server -------------------------------------------------------------------------------------------

    def params(self, method: str, params: JsonObject) -> JsonObject:
        """Return the params of a request of the client for the server. Raises `InvalidParams`."""
        rewrite = self._places.params(method)
        found = params if rewrite is None else rewrite(params, self._inward)
        if method.startswith(_TASKS) and RESPONSES in params:
            responses = self._places.typed("InputResponses")
            if responses is not None:
                found = {**found, RESPONSES: responses(params[RESPONSES], self._inward)}
        return self._related(found, self._inward)

    def answer(self, method: str, result: JsonObject) -> JsonObject:
        """Return the client's result of a request of the server."""
        rewrite = self._places.result(method)
        return result if rewrite is None else rewrite(result, self._answering)

    def filter(self, filter_: JsonObject, uris: list[str]) -> JsonObject:
        """Return the part of a listen filter for the server, which has these resources."""
        member = "resourceSubscriptions"
        found = {name: value for name, value in filter_.items() if name not in (member, TASK_IDS)}
        ids: list[str] = []
        for id_ in as_list(filter_.get(TASK_IDS)) or ():
            try:
                ids.append(self._own_task(str(id_)))
            except InvalidParams:
                continue
        return found | ({member: uris} if uris else {}) | ({TASK_IDS: ids} if ids else {})

    def _related(self, value: JsonObject, changes: Changes) -> JsonObject:
        """Return an object with the id of the task that its `_meta` relates it to."""
        meta = as_object(value.get("_meta"))
        task = as_object(meta.get(RELATED)).get(_TASK_ID)
        if not isinstance(task, str):
            return value
        related = {**as_object(meta[RELATED]), _TASK_ID: changes.task(task)}
        return {**value, "_meta": {**meta, RELATED: related}}


def reference_kind(reference: JsonObject) -> str:
    """Return the kind of what a completion is about."""
    return RESOURCES if "uri" in reference else PROMPTS
