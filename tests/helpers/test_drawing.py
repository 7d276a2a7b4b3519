"""`make fuzz` runs again what draws its cases, and of the rest only combinations that `make test` leaves out."""

from __future__ import annotations

import pytest

from helpers.drawing import draws
from helpers.support import ROOT

TESTS = ROOT / "tests"


@pytest.mark.parametrize(
    ("file", "test"),
    [
        ("fuzz/test_lines.py", "test_lines_are_the_same_however_they_are_cut"),
        ("wire/test_bounds.py", "test_steps_grow_with_the_bytes_only"),  # through a helper of another module
        ("generated/test_corpus.py", "test_every_valid_value_round_trips_exactly"),  # in its body
        ("conversion/test_samples.py", "test_corpus_up_and_down"),  # by a decorator
        ("analysis/test_explaining.py", "test_an_explanation_ends_as_the_conversion_does"),  # by a constant
        ("faults/test_killed_client.py", "test_gone_at_every_step"),
        ("api/test_odd_results.py", "test_a_client_gets_a_result_or_an_error_of_mcprev"),
    ],
)
def test_what_draws_its_cases_is_run_again(file: str, test: str) -> None:
    assert draws(TESTS / file, test)


@pytest.mark.parametrize(
    ("file", "test"),
    [
        ("generated/test_corpus.py", "test_a_mutated_message_is_accepted_only_where_the_schema_accepts_it"),
        ("runtime/test_call_outputs.py", "test_a_result_that_cannot_be_relied_on_is_shown_and_no_success"),
        ("conversion/test_table_requests.py", "sampled"),  # another function of this name
        ("explore/test_site.py", "test_every_fact_of_a_difference_is_on_the_page_of_its_pair"),
    ],
)
def test_what_only_has_drawn_parameters_is_not(file: str, test: str) -> None:
    assert not draws(TESTS / file, test)
