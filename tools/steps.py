"""What `make generate` asks of the step modules: each is loaded, and converts examples of what its revision changes, both ways.

A conversion may refuse an example with its reason. What it returns is valid at the other revision. Complete revisions are
asked all of this, others only whether their module can be loaded.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from counts import SETTLED
from helpers.corpus import Corpus, Judge
from helpers.pinned import ROOT, load
from mcprev.conversion import PayloadKind, convert
from mcprev.conversion.rules import Rules
from mcprev.errors import ConversionError
from mcprev_codegen import ir
from mcprev_codegen.facts.revision import Revision
from mcprev_codegen.ir.nodes import Json
from mcprev_codegen.lineage import conversion_deltas, pairing

STEPS: Final = ROOT / "runtime" / "mcprev" / "conversion"
Payload = tuple[str, PayloadKind, str]
"""A method, the kind of a payload and its type."""


def unloadable(modules: Iterable[Path], package: str = "mcprev.conversion") -> Iterator[str]:
    """A line for each step module that cannot be loaded: its place, and why."""
    for path in modules:
        try:
            import_module(f"{package}.{path.stem}")
        except Exception as error:  # noqa: BLE001 - whatever a module raises is told with its place
            frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
            line = frames[-1].lineno if frames else getattr(error, "lineno", None)
            yield f"{path.name}:{line or 1}: cannot be loaded: {type(error).__name__}: {error}"


def changed(here: Revision, there: Revision, names: Mapping[str, str]) -> frozenset[str]:
    """The types that a step between two adjacent revisions changes, and those that have one of them within.

    `names` are the names there of the types here.
    """
    return having(here, conversion_deltas(here, there, names))


def having(revision: Revision, some: Iterable[str]) -> frozenset[str]:
    """Some types, and those that have one of them within."""
    used = {name: ir.references(decl) for name, decl in revision.schema.types.items()}
    wanted = frozenset(some)
    return frozenset(name for name in used if not wanted.isdisjoint(ir.reachable([name], used.__getitem__)))


def payloads(here: Revision, there: Revision, names: Mapping[str, str]) -> Iterator[Payload]:
    """The payloads that a step changes, of the methods of both revisions."""
    types = changed(here, there, names)
    for name, method in here.methods.items():
        if name in there.methods:
            found = [(PayloadKind.PARAMS, method.params)] if method.params else []
            found += [(PayloadKind.RESULT, result) for result in method.results]
            yield from ((name, kind, type_) for kind, type_ in found if type_ in types)


def unconverted(here: Revision, there: Revision, names: Mapping[str, str], rules: Rules) -> Iterator[str]:
    """A line for each payload that a step fails at, or makes something invalid of, but for what its rules accept.

    One of the examples is to be converted, or refused with a reason: what the other revision cannot have is refused later.
    """
    corpus, judge = Corpus(here), Judge(there, lenient=False)
    accepted = having(here, (member.partition(".")[0] for member in rules.accepted))
    for method, kind, type_ in payloads(here, there, names):
        what, spec = f"{here.name} to {there.name}: {kind} of {method} ({type_})", there.methods[method]
        takes = [spec.params] if kind is PayloadKind.PARAMS else [*spec.results]
        wrong: list[Json] = []
        for value in (examples := [*corpus.samples(type_)]):
            try:
                done = convert(value, method, kind, from_=here.name, to=there.name, validate=False)
            except ConversionError:
                continue
            except Exception as error:  # noqa: BLE001 - what rules raise is what is looked for
                yield f"{what}: {type(error).__name__}: {error}"
                break
            if not any(one and judge.accepts(ir.Ref(one), done) for one in takes):
                wrong.append(done)
        if len(wrong) == len(examples) and type_ not in accepted:
            yield f"{what}: what becomes of an example is not valid there: {str(wrong[0])[:300]}"


def problems(revisions: Sequence[str] = SETTLED) -> list[str]:
    """What is wrong with the step modules, a line each."""
    found = [*unloadable(sorted(STEPS.glob("step_*.py")))]
    if not found:
        for older, newer in pairwise(map(load, revisions)):
            names = pairing(older, newer)
            step: Any = import_module(f"mcprev.conversion.step_{newer.name.replace('-', '_')}")
            found += unconverted(newer, older, names, step.DOWN)
            found += unconverted(older, newer, {theirs: ours for ours, theirs in names.items()}, step.UP)
    return found


def main() -> int:
    """Print what is wrong; the exit code is 1 if anything is."""
    lines = problems()
    sys.stderr.write("".join(f"error: runtime/mcprev/conversion: {line}\n" for line in lines))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
