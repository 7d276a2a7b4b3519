"""Strings that leave a literal, a comment or a template which does not hold them."""

from __future__ import annotations

from typing import Final

CALL: Final = "CANARY()"
"""What runs if a string becomes code."""
HOSTILE: Final = (
    ['"', "'", '"""', "\\", '\\"', '""""""""\\'],
    [f'" + {CALL} + "', f"' + {CALL} + '", f'"""\n{CALL}\n"""', f"'''\n{CALL}\n'''", f'\\"""\n{CALL}\n#', f'")]}}\n{CALL}\n#'],
    [
        f"', {CALL}, '", f"\r{CALL}\r\n{CALL}\t\v\f{CALL}", f"\x1c{CALL}\x1d\x1e\x85{CALL}\u2028{CALL}\u2029", "a\x00b",
        f"{{{CALL}}}{{0.__class__}}%(x)s%s${{{CALL}}}", f"{{{{ {CALL} }}}}{{% set x = {CALL} %}}{{# {CALL}",
    ],
    [
        "\x1b]0;title\x07\x1b[2J\x7f\x80\x9b", "\u202e\u2066\u200f\ufeff\u200b\U000e0041é日本🎉\uffff", "<script>__class__",
        f"*/ {CALL} /*`{CALL}`//{CALL}# {CALL}", f"{{@link x | {CALL}", f'"]\n[x]\ny = {CALL}',
    ],
)  # fmt: skip
"""The strings, those of one schema together."""
MIXED: Final = [f'"""\n{CALL}\n\\"', f"' + {CALL} + '\r\x1b[2J\u2028\u202e", "\\"]
"""Few strings, for what takes long."""
