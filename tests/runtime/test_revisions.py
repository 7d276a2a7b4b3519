"""The revision table agrees with the generated packages wherever both know a thing (SEAM-6, SEAM-8, NEG-13)."""

from __future__ import annotations

import runpy
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from helpers.named import MEANT
from helpers.requirements import req
from mcprev import revisions
from mcprev.errors import RevisionError
from mcprev.revisions import ALL, Revision, TaskSupport
from mcprev_types import index
from mcprev_types.index import LATEST, REVISIONS

each_row = pytest.mark.parametrize("row", ALL, ids=lambda row: row.name)


@req("SEAM-6", "SEAM-7", everywhere=True)
def test_there_is_one_row_for_every_generated_package() -> None:
    assert [row.name for row in ALL] == list(REVISIONS)


@req("SEAM-1", everywhere=True)
def test_the_newest_dated_revision_is_the_latest() -> None:
    assert revisions.LATEST.name == LATEST


@req("SEAM-6")
@each_row
def test_the_era_follows_from_the_initialize_method(row: Revision) -> None:
    assert row.handshake == ("initialize" in row.methods)


@req("NEG-13")
@each_row
def test_the_version_on_the_wire_is_the_schemas_own(row: Revision) -> None:
    assert row.version == REVISIONS[row.name].protocol_version


@req("BATCH-1", "BATCH-6")
@each_row
def test_batches_are_accepted_where_the_schema_has_them(row: Revision) -> None:
    assert row.accepts_batch == hasattr(row.models, "JSONRPCBatchRequest")


@req("SEAM-2")
@each_row
def test_change_notifications_need_a_listen_stream_where_the_method_exists(row: Revision) -> None:
    assert row.listens == ("subscriptions/listen" in row.methods)


@req("SEAM-6")
@each_row
def test_input_is_asked_for_in_results_where_requests_are_embedded(row: Revision) -> None:
    assert row.input_in_results == any(m.transport == "embedded" for m in row.methods.values())


@req("TOOL-4")
@each_row
def test_structured_content_is_of_objects_only_where_the_schema_says_so(row: Revision) -> None:
    result = row.models.CallToolResult
    objects = "structured_content" in result.model_fields
    try:
        result.from_wire({"content": [], "structuredContent": 3, "resultType": "complete"})
    except ValidationError:
        assert objects
    else:
        objects = False
    assert row.structured_objects is objects


@req("SEAM-6")
@each_row
def test_the_log_level_comes_with_each_request_where_there_is_no_method_for_it(row: Revision) -> None:
    assert row.log_level_per_request == ("logging/setLevel" not in row.methods)


@req("SEAM-6")
@each_row
def test_tasks_are_core_where_their_methods_are(row: Revision) -> None:
    assert (row.tasks is TaskSupport.CORE) == ("tasks/get" in row.methods)


@req("SEAM-6")
@each_row
def test_elicitation_exists_where_it_has_modes(row: Revision) -> None:
    assert bool(row.elicitation_modes) == ("elicitation/create" in row.methods)
    assert ("url" in row.elicitation_modes) == hasattr(row.models, "ElicitRequestURLParams")


@req("SEAM-6")
@each_row
def test_sampling_has_tools_where_the_schema_has_them(row: Revision) -> None:
    assert row.sampling_tools == ("tools" in row.models.CreateMessageRequestParams.model_fields)


@req("SEAM-8")
def test_a_draft_is_never_offered_unasked_and_its_version_means_the_dated_revision() -> None:
    (draft,) = [row for row in ALL if not row.negotiable]
    assert draft not in revisions.DEFAULT
    assert revisions.by_version(draft.version, ALL) is MEANT
    assert revisions.by_version(draft.version, (draft,)) is draft
    assert revisions.place(draft) == revisions.place(MEANT)


@req("NEG-13", everywhere=True)
def test_a_choice_is_kept_in_order_and_an_unknown_name_is_refused() -> None:
    assert revisions.select((ALL[3].name, ALL[1].name)) == (ALL[1], ALL[3])
    assert revisions.select(None) == revisions.DEFAULT
    with pytest.raises(ValueError, match="unknown revision '1999-01-01'"):
        revisions.select(("1999-01-01",))
    with pytest.raises(ValueError, match="at least one"):
        revisions.select(())


@req("NEG-13", everywhere=True)
def test_a_version_that_no_row_bears_means_nothing() -> None:
    assert revisions.by_version("2999-01-01") is None
    assert revisions.by_version(ALL[0].version, (ALL[1],)) is None


# -- rows and packages that are not there yet, or no longer ---------------------------------------------------


def table_with(monkeypatch: pytest.MonkeyPatch, latest: str, **more: str) -> dict[str, Any]:
    """The module as it is with other generated packages: `latest`, and `more` named after one that there is."""
    known = dict(REVISIONS) | {name.replace("_", "-"): REVISIONS[model] for name, model in more.items()}
    monkeypatch.setattr(index, "REVISIONS", known)
    monkeypatch.setattr(index, "LATEST", latest)
    return runpy.run_path(str(revisions.__file__))


@req("SEAM-7", everywhere=True)
def test_a_package_without_a_row_is_not_spoken_and_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = table_with(monkeypatch, LATEST, brand_new=LATEST)
    assert [row.name for row in found["ALL"]] == [row.name for row in ALL]
    assert found["LATEST"].name == LATEST
    for _ in range(2):
        assert found["select"](None) == found["DEFAULT"]
    assert [record.getMessage() for record in caplog.records] == [found["UNSPOKEN"]["brand-new"]]
    assert f"it requires a row in {revisions.__file__}" in caplog.text
    with pytest.raises(RevisionError, match=r"brand-new is generated .* it requires a row"):
        found["revision_named"]("brand-new")


@req("SEAM-7", everywhere=True)
def test_a_row_beyond_what_is_generated_as_the_latest_is_not_spoken_and_names_the_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = revisions.DEFAULT[-2].name
    found = table_with(monkeypatch, before)
    assert found["LATEST"].name == before
    assert LATEST not in [row.name for row in found["ALL"]]
    with pytest.raises(
        RevisionError, match=rf"step_{LATEST.replace('-', '_')}\.py, decided, and `mcprev generate`"
    ):
        found["revision_named"](LATEST)


@req("SEAM-7", everywhere=True)
def test_a_row_without_a_package_is_named() -> None:
    with pytest.raises(
        RevisionError, match=r"the row 'gone' of .* has no generated package: .* or delete the row"
    ):
        replace(ALL[0], name="gone")


@req("SEAM-7", everywhere=True)
def test_the_latest_package_needs_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RevisionError, match=r"`mcprev_types\.latest` is brand-new, which has no row"):
        table_with(monkeypatch, "brand-new", brand_new=LATEST)
