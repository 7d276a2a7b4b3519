"""Renders a report as JUnit XML: one test per change, which fails if the change is at least as bad as the threshold."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from mcprev_codegen.diff.changes import Change, Report, Verdict
from mcprev_codegen.diff.report import wording
from mcprev_codegen.errors import clean


def report_junit(report: Report, threshold: Verdict = Verdict.BREAKING) -> str:
    """Return one test suite; ignored changes are skipped tests, and a report without changes is one passed test."""
    suite = ET.Element("testsuite", name=clean(f"mcprev diff {report.old.name} {report.new.name}"))
    for change in report.changes:
        case = _case(suite, change)
        told = "\n".join(map(clean, _lines(change)))
        if change.worst.rank >= threshold.rank:
            attributes = {"type": change.worst.value, "message": clean(change.headline)}
            ET.SubElement(case, "failure", attributes).text = told
        else:
            ET.SubElement(case, "system-out").text = told
    for entry in report.ignored:
        ET.SubElement(_case(suite, entry.change), "skipped", message=clean(entry.reason))
    if not report.changes and not report.ignored:
        ET.SubElement(suite, "testcase", classname="mcprev diff", name="nothing changed")
    if report.notes:
        ET.SubElement(suite, "system-out").text = "\n".join(map(clean, report.notes))
    failures = sum(change.worst.rank >= threshold.rank for change in report.changes)
    tests = len(suite.findall("testcase"))
    suite.attrib |= {"tests": str(tests), "failures": str(failures), "skipped": str(len(report.ignored))}
    root = ET.Element("testsuites", suite.attrib)
    root.append(suite)
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text.decode("utf-8") + "\n"


def _case(suite: ET.Element, change: Change) -> ET.Element:
    name = clean(f"{wording.where(change)}: {change.headline} [{change.fingerprint}]")
    group = change.method or change.type or change.path
    return ET.SubElement(suite, "testcase", classname=clean(group), name=name)


def _lines(change: Change) -> list[str]:
    """Return the details of a change for the output of its test."""
    ways = (("old → new", change.old_to_new), ("new → old", change.new_to_old))
    sides = (("before", change.old), ("after", change.new))
    return [
        *(f"{way}: {judgement.verdict}. {judgement.reason}" for way, judgement in ways),
        *(f"{label}: {place.text}" for label, place in sides if place),
        *([change.note] if change.note else []),
        f"rule {change.id}, fingerprint {change.fingerprint}, sent by {wording.sent_by(change)}",
    ]
