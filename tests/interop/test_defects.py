"""The table of what peers cannot do names only cases and peers that there are."""

from __future__ import annotations

from fnmatch import fnmatch
from importlib import import_module

import pytest

from helpers.requirements import req
from interop.defects import DEFECTS, Defect
from interop.peers import ALL


@req("BASE-5", everywhere=True)
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.case)
def test_each_defect_is_of_a_case_and_of_peers_that_there_are(defect: Defect) -> None:
    module, name = defect.case.split("::")
    assert hasattr(import_module(f"interop.{module}"), name)
    unknown = [pattern for pattern in defect.peers if not any(fnmatch(peer.id, pattern) for peer in ALL)]
    assert unknown == []
