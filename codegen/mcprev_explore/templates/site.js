"use strict";
// One classic script: pages opened from `file:` load neither modules nor data by fetch.
(function () {
  var doc = document, root = doc.documentElement.dataset.root || "";

  // -- light and dark
  var stored = null;
  try { stored = localStorage.getItem("mcprev-theme"); } catch (_) { /* a browser that keeps nothing */ }
  if (stored === "light" || stored === "dark") { doc.documentElement.dataset.theme = stored; }
  var theme = doc.querySelector(".theme");
  theme.hidden = false;
  theme.addEventListener("click", function () {
    var dark = doc.documentElement.dataset.theme ? doc.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    var next = dark ? "light" : "dark";
    doc.documentElement.dataset.theme = next;
    try { localStorage.setItem("mcprev-theme", next); } catch (_) { /* it holds for this page */ }
  });

  // -- search
  var form = doc.querySelector(".search"), input = form.querySelector("input"), list = doc.getElementById("found");
  var waiting = [], loading = false, lowered = null, chosen = -1;

  function withData(then) {
    if (window.mcprevSearch) { then(window.mcprevSearch); return; }
    waiting.push(then);
    if (loading) { return; }
    loading = true;
    var script = doc.createElement("script");
    script.src = root + "search-data.js";
    script.onload = function () { waiting.splice(0).forEach(function (each) { each(window.mcprevSearch); }); };
    doc.head.appendChild(script);
  }

  // The better a word fits the name, the higher the entry; every word has to be somewhere in it.
  var kinds = { method: 12, type: 10, constant: 6, member: 4, difference: 3, rule: 0 };
  function search(entries, text, most) {
    var words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) { return []; }
    lowered = lowered || entries.map(function (each) { return [each[0].toLowerCase(), (each[0] + " " + each[1] + " " + each[3]).toLowerCase()]; });
    var hits = [];
    lowered.forEach(function (low, index) {
      var score = kinds[entries[index][1]] || 0;
      for (var i = 0; i < words.length; i++) {
        var word = words[i], at = low[0].indexOf(word);
        if (low[0] === word) { score += 100; }
        else if (at === 0) { score += 50; }
        else if (at > 0) { score += /[a-z0-9]/.test(low[0][at - 1]) && entries[index][0][at] === entries[index][0][at].toLowerCase() ? 15 : 30; }
        else if (low[1].indexOf(word) >= 0) { score += 5; }
        else { return; }
      }
      hits.push([score - low[0].length / 50, index]);
    });
    hits.sort(function (a, b) { return b[0] - a[0] || a[1] - b[1]; });
    return hits.slice(0, most).map(function (hit) { return entries[hit[1]]; });
  }

  function part(style, text) {
    var made = doc.createElement("span");
    made.className = style;
    made.textContent = text;
    return made;
  }

  function link(entry) {
    var made = doc.createElement("a");
    made.href = root + entry[2];
    made.append(part("name", entry[0]), part("what", entry[1]));
    if (entry[3]) { made.append(part("more", entry[3].replace(/`/g, ""))); }
    return made;
  }

  function choose(index) {
    var links = list.querySelectorAll("a");
    chosen = links.length ? (index + links.length) % links.length : -1;
    links.forEach(function (each, n) { each.setAttribute("aria-selected", String(n === chosen)); });
    if (chosen >= 0) {
      input.setAttribute("aria-activedescendant", links[chosen].id);
      links[chosen].scrollIntoView({ block: "nearest" });
    } else { input.removeAttribute("aria-activedescendant"); }
  }

  function close() {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function show() {
    var text = input.value;
    if (!text.trim()) { close(); return; }
    withData(function (entries) {
      if (input.value !== text) { return; }
      var hits = search(entries, text, 12);
      list.replaceChildren.apply(list, hits.map(function (entry, n) {
        var item = doc.createElement("li"), anchor = link(entry);
        item.setAttribute("role", "presentation");
        anchor.setAttribute("role", "option");
        anchor.setAttribute("aria-selected", "false");
        anchor.id = "found-" + n;
        anchor.tabIndex = -1;
        item.append(anchor);
        return item;
      }));
      if (!hits.length) {
        var none = doc.createElement("li");
        none.className = "none";
        none.setAttribute("role", "option");
        none.setAttribute("aria-selected", "false");
        none.textContent = "Nothing found.";
        list.append(none);
      }
      list.hidden = false;
      input.setAttribute("aria-expanded", "true");
      choose(hits.length ? 0 : -1);
    });
  }

  input.addEventListener("focus", function () { withData(function () {}); if (input.value) { show(); } });
  input.addEventListener("input", show);
  input.addEventListener("keydown", function (event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (list.hidden) { show(); } else { choose(chosen + (event.key === "ArrowDown" ? 1 : -1)); }
      event.preventDefault();
    } else if (event.key === "Escape") {
      if (!list.hidden) { close(); event.preventDefault(); } else { input.blur(); }
    } else if (event.key === "Enter" && !list.hidden && chosen >= 0) {
      event.preventDefault();
      location.href = list.querySelectorAll("a")[chosen].href;
      close();
    }
  });
  form.addEventListener("submit", function (event) {
    event.preventDefault();
    location.href = root + "search.html#q=" + encodeURIComponent(input.value);
  });
  form.addEventListener("focusout", function (event) { if (!form.contains(event.relatedTarget)) { setTimeout(close, 150); } });

  var page = doc.getElementById("search-page");
  function results() {
    var text = decodeURIComponent((/^#q=(.*)$/.exec(location.hash) || ["", ""])[1]);
    if (!text) { return; }
    input.value = text;
    withData(function (entries) {
      var hits = search(entries, text, 200);
      doc.getElementById("search-told").textContent = hits.length + (hits.length === 200 ? " or more" : "") + " found for “" + text + "”.";
      page.replaceChildren.apply(page, hits.map(function (entry) {
        var item = doc.createElement("li");
        item.append(link(entry));
        return item;
      }));
    });
  }
  if (page) { results(); addEventListener("hashchange", results); }

  // -- keys: / searches, [ and ] go from one revision of a page to the next
  doc.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) { return; }
    if (event.key === "/") { event.preventDefault(); input.focus(); input.select(); }
    if (event.key === "[" || event.key === "]") {
      var anchors = Array.prototype.slice.call(doc.querySelectorAll(".version > .anchor, .ladder > li"));
      if (!anchors.length) { return; }
      var here = anchors.findIndex(function (each) { return each.id === decodeURIComponent(location.hash.slice(1)); });
      var next = event.key === "]" ? Math.min(here + 1, anchors.length - 1) : Math.max(here < 0 ? anchors.length - 1 : here - 1, 0);
      location.hash = anchors[next].id;
    }
  });

  // -- filters
  var filter = doc.querySelector("[data-filter]"), verdict = doc.querySelector("[data-filter-verdict]");
  if (filter) {
    var items = Array.prototype.slice.call(doc.querySelectorAll(filter.dataset.filter));
    var texts = null;
    var apply = function () {
      texts = texts || items.map(function (item) { return item.textContent.toLowerCase(); });
      var words = filter.value.toLowerCase().split(/\s+/).filter(Boolean), wanted = verdict ? verdict.value : "";
      var on = words.length > 0 || wanted !== "";
      items.forEach(function (item, n) {
        item.hidden = (wanted && item.dataset.verdict !== wanted) || !words.every(function (word) { return texts[n].indexOf(word) >= 0; });
      });
      doc.querySelectorAll(".group, .fold, main > section:has(.lives)").forEach(function (group) {
        var left = group.querySelectorAll(".changes > li:not([hidden]), .lives > li:not([hidden])").length;
        group.hidden = on && left === 0;
        if (group.classList.contains("fold")) { group.open = on && left > 0; }
      });
    };
    filter.closest(".filter").hidden = false;
    filter.addEventListener("input", apply);
    if (verdict) { verdict.addEventListener("input", apply); }
  }

  // -- what a link leads to is shown, also inside of what is folded
  function reveal() {
    var target = doc.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) { return; }
    for (var each = target; each; each = each.parentElement) { if (each.tagName === "DETAILS") { each.open = true; } }
    target.scrollIntoView();
  }
  addEventListener("hashchange", reveal);
  if (location.hash.length > 1) { reveal(); }
  addEventListener("beforeprint", function () { doc.querySelectorAll("details").forEach(function (each) { each.open = true; }); });
})();
