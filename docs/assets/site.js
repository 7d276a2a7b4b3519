// What the theme leaves out for those who read with the keyboard or by ear: wide tables can be scrolled with the keyboard,
// and not every list of headings and every copy button is a landmark of its own.
function mend() {
  for (const each of document.querySelectorAll(".md-nav--secondary nav, nav.md-code__nav")) {
    each.removeAttribute("aria-label");
    each.setAttribute("role", "none");
  }
  for (const each of document.querySelectorAll(".md-typeset__scrollwrap")) each.tabIndex = 0;
}

mend();
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
