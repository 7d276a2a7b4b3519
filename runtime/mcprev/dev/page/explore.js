// Links into the site of `mcprev explore`, where the command was told of one with --explore.

import { h, short } from "./dom.js";
import * as store from "./store.js";

/** The name of a type of a revision: a link to its page at that revision, or the name alone. */
export function type_name(name, revision) {
  const base = store.state.explore;
  const served = base === "/explore";
  if (typeof base !== "string" || !(served || /^https?:\/\//.test(base)) || !/^\w{1,100}$/.test(name)) return h("code", {}, short(name, 80));
  const anchor = h("a", { target: "_blank", rel: "noopener noreferrer", title: served ? null : `Opens ${short(base, 200)}` }, h("code", {}, name));
  anchor.setAttribute("href", `${base}/type/${name}.html${/^[\w.-]+$/.test(revision ?? "") ? `#${revision}` : ""}`);
  return anchor;
}
