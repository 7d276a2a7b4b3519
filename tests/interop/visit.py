"""What a user does on the page of `mcprev dev` with one server, done in Chromium, and what the page showed of it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from playwright.sync_api import TimeoutError as Late

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

OVER: Final = ("s-done", "s-failed", "s-cancelled")
LIMIT: Final = 60_000
"""Milliseconds in which a call ends or asks."""
ASKED: Final = {
    "The server asks you": "elicitation",
    "The server asks for a model's message": "sampling",
    "The server asks for your roots": "roots",
}
KNOWS: Final = """async (wanted) => {
  const { state, at_index, count } = await import("/page/store.js");
  const events = Array.from({ length: count() }, (_, index) => at_index(index));
  const heard = (method) => events.filter((each) => each.dir === "in" && each.method === method && each.shape === "notification").length;
  return {
    progress: heard("notifications/progress"),
    logs: state.logs.filter((each) => each.level !== "stderr").length,
    changes: ["tools", "prompts", "resources"].map((kind) => heard(`notifications/${kind}/list_changed`)).reduce((a, b) => a + b),
    updates: heard("notifications/resources/updated"),
    tasks: [...state.tasks.values()].map((each) => each.status),
    messages: events.filter((each) => each.kind === "message").length,
    invalid: events.filter((each) => each.kind === "invalid").length,
    problems: events.filter((each) => each.problems).map((each) => [each.n, each.dir, each.method ?? ""]),
  };
}"""
"""What the page holds of what it heard."""


FAILED: Final = """async () => [...(await import("/page/store.js")).state.calls.values()]
  .filter((each) => each.again_of && each.state === "failed").map((each) => [each.revision, each.error?.message ?? ""])"""
FEATURES: Final = (
    "tools", "resources", "templates", "prompts", "completion", "elicitation", "sampling", "roots", "progress", "cancelled",
    "logs", "list changes", "updates", "tasks", "messages", "not valid",
)  # fmt: skip
DRAWN: Final = """async (kind) => {
  const list = (await import("/page/store.js")).state.lists[kind];
  const drawn = document.querySelectorAll(`.nav .item[data-key^="${kind}/"]`).length;
  return list?.state === "ready" ? drawn === list.items.length : ["failed", "unsupported"].includes(list?.state);
}"""
"""Whether a list was read and is drawn."""
NOT_SPOKEN: Final = re.compile("the peer offers|does not speak|unsupported protocol version", re.IGNORECASE)


@dataclass
class Seen:
    """What the page showed of a server."""

    revision: str = ""
    cells: dict[str, str] = field(default_factory=dict[str, str])
    called: str = ""
    at: dict[str, str] = field(default_factory=dict[str, str])
    """What a call did at each revision."""
    notes: list[str] = field(default_factory=list[str])
    wrong: bool = False


class Visit:
    """One visit of the page."""

    def __init__(self, page: Page, typed: Mapping[str, Any], seen: Seen) -> None:
        self.page, self.typed, self.seen = page, typed, seen
        self.asked = dict.fromkeys(ASKED.values(), 0)
        self.logged: list[str] = []
        page.set_default_timeout(LIMIT)
        page.on("console", lambda message: self.logged.append(message.text))
        page.on("pageerror", lambda error: self.logged.append(str(error)))

    def all(self, url: str) -> None:
        """Use everything that the server offers."""
        page, seen = self.page, self.seen
        page.goto(url)
        page.wait_for_function(
            "() => document.querySelector('select.revision')?.options[0]?.text.includes('negotiated') && document.querySelector('.st-connected')"
        )
        seen.cells = dict.fromkeys(FEATURES, "")
        seen.revision = page.locator("select.revision option").first.inner_text().split(" ")[0]
        offered = {kind: self.names(kind) for kind in ("tools", "resources", "templates", "prompts")}
        if self.can("logging"):
            self.view("Logs")
            page.get_by_label("Ask the server for log messages").select_option("debug")
        self.subscribe(offered["resources"])
        self.waiting()
        for kind, names in offered.items():
            order = [*self.typed.get(kind, ()), *names]
            names.sort(key=order.index)
            names.sort(key=lambda name: name == self.typed.get("cancel"))  # old releases do not outlive it
            ended = [self.use(kind, name) for name in names]
            seen.cells[kind] = f"{sum(ended)} of {len(ended)}" if ended else ""
        if "cancelled" in self.typed:
            self.use("tools", self.typed["cancel"], self.typed["cancelled"])
        self.waiting()
        seen.cells |= {name: str(count) if count else "" for name, count in self.asked.items()}
        self.heard(offered["resources"])
        self.tasks()
        self.everywhere()
        if self.logged:
            seen.wrong = True
            seen.notes.append(f"the browser logged: {self.logged[0][:200]}")

    def until(self, script: str, argument: str | None = None) -> None:
        """Wait until a script that is async returns true, for which `wait_for_function` takes any promise."""
        end = time.monotonic() + LIMIT / 1000
        while not self.page.evaluate(script, argument):
            if time.monotonic() > end:
                raise Late(f"not within {LIMIT // 1000} s: {script}")
            self.page.wait_for_timeout(50)

    # -- lists and views -----------------------------------------------------------------------------------

    def can(self, capability: str) -> bool:
        """Whether the server said so."""
        script = "async (name) => Boolean((await import('/page/store.js')).state.target.capabilities?.[name])"
        found: bool = self.page.evaluate(script, capability)
        return found

    def names(self, kind: str) -> list[str]:
        """Open a list, and return the names in it."""
        head = self.page.locator(f'[data-key="fold {kind}"]')
        if not self.can({"templates": "resources"}.get(kind, kind)):
            return []
        head.wait_for()
        if head.get_attribute("aria-expanded") == "false":
            head.click()
        self.until(DRAWN, kind)
        failed = self.page.locator(f'.nav section:has([data-key="fold {kind}"]) .error')
        if failed.count() > 0:
            self.seen.notes.append(f"the list of {kind} failed: {said(failed.first.inner_text())}")
            self.seen.wrong = True
        keys = self.page.locator(f'.nav .item[data-key^="{kind}/"]')
        return [(key.get_attribute("data-key") or "").partition("/")[2] for key in keys.all()]

    def view(self, name: str) -> None:
        """Open a view."""
        self.page.locator(".nav-views .item", has_text=name).click()

    def open(self, kind: str, name: str) -> Locator:
        """Open an item, and return its panel."""
        self.page.locator(f".nav .item[data-key={json.dumps(f'{kind}/{name}')}]").click()
        panel = self.page.locator(".view-place > .view")
        panel.locator(".calling").wait_for()
        return panel

    # -- calls ---------------------------------------------------------------------------------------------

    def use(self, kind: str, name: str, cancelled: Mapping[str, Any] | None = None) -> bool:
        """Fill in the form of an item, call it and follow it; return whether it ended as it should.

        With arguments to be `cancelled`, it is cancelled; without them, what the server's `cancel` names is.
        """
        panel = self.open(kind, name)
        named = (
            self.typed.get("tools", {}).get(name, {}) if kind == "tools" else self.typed.get("variables", {})
        )
        arguments = named if cancelled is None else cancelled
        self.fill(panel, arguments, whole=kind == "tools")
        if kind in ("templates", "prompts") and self.can("completions"):
            self.complete(panel)
        panel.locator("button.go").click()
        anyway = panel.get_by_role("button", name="Send it anyway")
        state = panel.locator(".live > .state")
        state.or_(anyway).first.wait_for()
        if anyway.is_visible():
            self.seen.notes.append(
                f"`{name}` was held back: {panel.locator('.problems').first.inner_text()[:200]}"
            )
            self.seen.wrong = True
            return False
        cancels = kind == "tools" and name == self.typed.get("cancel") and "cancelled" not in self.typed
        if cancels or cancelled is not None:
            panel.get_by_role("button", name="Cancel").click()
            self.seen.cells["cancelled"] = "yes"
        ended = self.follow(panel)
        failed = ended == "s-failed" or panel.locator(".result.failed").count() > 0
        if failed and name not in self.typed.get("fails", ()):
            self.seen.notes.append(f"`{name}` failed: {said(panel.locator('.result').first.inner_text())}")
            return False
        return ended != ""

    def fill(self, panel: Locator, arguments: Mapping[str, Any], *, whole: bool) -> None:
        """Type arguments: each into its field, or all of them as JSON if one has no simple field."""
        rest = dict(arguments)
        for name, value in arguments.items():
            label = re.compile(rf"^{re.escape(name)}( \*|$)")
            field_ = panel.locator(".form").get_by_label(label)
            inputs = field_.and_(panel.locator("input:not([type=radio]), textarea"))
            choice = field_.and_(panel.locator("select"))
            radio = panel.get_by_role("radiogroup", name=label).get_by_label(_text(value), exact=True)
            if inputs.count() == 1 and not isinstance(value, list | dict):
                inputs.fill(_text(value))
            elif choice.locator("option").get_by_text(_text(value), exact=True).count() == 1:
                choice.select_option(label=_text(value))
            elif radio.count() == 1:
                radio.check(force=True)
            else:
                continue
            del rest[name]
        if rest and whole:
            panel.get_by_role("button", name="JSON", exact=True).click()
            panel.get_by_label("Arguments as JSON").fill(json.dumps(dict(arguments)))

    def complete(self, panel: Locator) -> None:
        """Type into the first field, and see what the server would put there."""
        text = panel.locator(".form input").first
        if text.count() == 0:
            return
        value = text.input_value()
        text.fill(value[:1])
        try:
            panel.locator("datalist option").first.wait_for(state="attached", timeout=3000)
            self.seen.cells["completion"] = "yes"
        except Late:
            pass  # it has nothing to say of this one
        text.fill(value)

    def follow(self, panel: Locator) -> str:
        """Answer what is asked until the call is over; return how it ended."""
        over = panel.locator(", ".join(f".live > .state.{name}" for name in OVER))
        card = panel.locator(".live section.card:not(.over)")
        for _ in range(10):
            try:
                over.or_(card).first.wait_for()
            except Late:
                self.seen.notes.append(
                    f"{panel.locator('h2').first.inner_text()} did not end within {LIMIT // 1000} s"
                )
                self.seen.wrong = True
                return ""
            if card.count() == 0:
                classes = (over.get_attribute("class") or "").split()
                return next(name for name in OVER if name in classes)
            self.answer(card.first)
        return ""

    def waiting(self) -> None:
        """Answer what was asked outside of a call."""
        self.view("Questions")
        cards = self.page.locator(".cards > section.card:not(.over)")
        for _ in range(10):
            if cards.count() == 0:
                return
            self.answer(cards.first)

    def answer(self, card: Locator) -> None:
        """Answer a question as a user would. One of no call goes from a panel with the call that it is drawn in."""
        try:
            handle = card.element_handle(timeout=1000)
        except Late:
            return
        title = handle.get_attribute("aria-label") or ""
        kind = ASKED[title]
        self.asked[kind] += 1
        if kind == "sampling":
            card.get_by_label("Text of the answer").fill("it")
            button = "Answer"
        elif kind == "roots":
            card.get_by_role("button", name="Add item to roots").click()
            card.get_by_label(re.compile("^uri")).and_(card.locator("input, textarea")).fill(
                "file:///srv/tea"
            )
            card.get_by_label(re.compile("^name")).and_(card.locator("input, textarea")).fill("tea")
            button = "Answer"
        elif card.get_by_role("button", name="I agree").count() == 1:
            button = "I agree"
        else:
            for name, value in self.typed.get("answers", {}).items():
                text = card.get_by_label(re.compile(rf"^{name}( \*|$)")).and_(card.locator("input, textarea"))
                if text.count() == 1:
                    text.fill(value)
            for select in card.locator("select:has(option[value='']:checked)").all():
                if "Choose" in select.locator("option").first.inner_text():
                    select.select_option(index=1)
            button = "Accept"
        card.get_by_role("button", name=button, exact=True).click()
        self.page.wait_for_function(
            "(card) => card.classList.contains('over') || !card.isConnected", arg=handle
        )

    # -- what comes by itself ------------------------------------------------------------------------------

    def subscribe(self, resources: list[str]) -> None:
        """Follow updates of the first resource, if the server has that."""
        script = "async () => Boolean((await import('/page/store.js')).state.target.capabilities?.resources?.subscribe)"
        if not resources or not self.page.evaluate(script):
            return
        panel = self.open("resources", resources[0])
        panel.get_by_label("subscribe to updates").check()

    def heard(self, resources: list[str]) -> None:
        """Wait for what the server says by itself, and note what the page heard."""
        if resources and "news" in self.typed:
            try:
                self.until("async () => (await import('/page/store.js')).state.updated.size > 0")
            except Late:
                self.seen.notes.append("no update of the resource that was followed")
        if "log" in self.typed and self.can("logging"):
            try:
                self.until(
                    "async () => (await import('/page/store.js')).state.logs.some((each) => each.level !== 'stderr')"
                )
            except Late:
                self.seen.notes.append("no log message")
        known = self.page.evaluate(KNOWS)
        names = {"progress": "progress", "logs": "logs", "changes": "list changes", "updates": "updates"}
        self.seen.cells |= {title: str(known[name] or "") for name, title in names.items()}
        self.seen.cells["messages"] = str(known["messages"])
        self.seen.cells["not valid"] = str(len(known["problems"]) + known["invalid"] or "")
        told: set[tuple[str, str, str]] = set()
        for number, direction, method in known["problems"]:
            self.page.evaluate("async (n) => (await import('/page/store.js')).select(n)", number)
            text = self.page.locator(".panel .problems li").first.inner_text()
            if (direction, method, text) not in told:
                told.add((direction, method, text))
                sender = "ours" if direction == "out" else "the server's"
                self.seen.wrong |= direction == "out"
                self.seen.notes.append(f"not valid, {sender}: `{method}`: {text[:200]}")

    def tasks(self) -> None:
        """See the tasks that were begun."""
        self.view("Tasks")
        self.page.wait_for_timeout(100)
        shown = [(each.get_attribute("class") or "").split()[-1] for each in self.page.locator(".task").all()]
        self.seen.cells["tasks"] = ", ".join(each.removeprefix("t-") for each in shown)

    def everywhere(self) -> None:
        """Make one call at every revision."""
        name = self.seen.called = self.typed["each"]
        panel = self.open("tools", name)
        panel.get_by_label("At which revision").select_option(label="every revision")
        own = self.seen.revision
        panel.locator("button.go").click()
        rows = panel.locator(".at-others tr")
        over = ", ".join(f".at-others td.{each}" for each in OVER)
        self.page.wait_for_function(
            "([over, rest]) => document.querySelectorAll(over).length >= rest",
            arg=[over, panel.get_by_label("At which revision").locator("option").count() - 2],
            timeout=60_000,
        )
        self.seen.at[own] = "own"
        for row in rows.all():
            cells = [each.strip() for each in row.inner_text().split("\t")]
            state, differs = cells[1].split(" ")[-1], cells[2] if len(cells) > 2 else ""
            self.seen.at[cells[0]] = differs if state == "done" else state
        for revision, why in self.page.evaluate(FAILED):
            known = self.seen.at.get(revision)
            self.seen.at[revision] = (
                "not spoken" if known == "failed" and NOT_SPOKEN.search(why) else known or ""
            )
            if self.seen.at[revision] == "failed":
                self.seen.notes.append(f"`{name}` at {revision}: {why[:200]}")


def said(text: str) -> str:
    """An error as it is told in docs: on one line, without folders of this machine and stderr."""
    line = re.sub(r"^✕ (The tool says that it failed\. (Result |Raw )*)?", "", " ".join(text.split()))
    line = re.sub(r"'?/\S*/\.interop/\S+ (exited with \d+).*", r"the process of the server \1", line)
    return line[:200]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
