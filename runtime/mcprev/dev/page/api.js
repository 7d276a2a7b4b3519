// Requests to the process. The token comes in the fragment of the address, leaves it at once, and goes into `Authorization`:
// a cookie would go to every port of this host. A second tab asks a first one for it.

import { stream_events } from "./stream.js";

const KEY = "mcprev-token";
let token = null;

/** Take the token out of the address, the storage of this tab, or another tab; null where none has it. */
export async function authorize() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const given = fragment.get("token");
  if (given) {
    fragment.delete("token");
    const rest = fragment.toString();
    history.replaceState(null, "", `${location.pathname}${rest ? `#${rest}` : ""}`);
    sessionStorage.setItem(KEY, given);
  }
  token = given ?? sessionStorage.getItem(KEY) ?? (await asked());
  if (token) sessionStorage.setItem(KEY, token);
  return token;
}

/** Use a token that the user pasted, alone or in the address that the command printed. */
export function use(text) {
  const found = /token=([^&\s]+)/.exec(text);
  token = (found ? found[1] : text).trim();
  sessionStorage.setItem(KEY, token);
}

const channel = new BroadcastChannel("mcprev-dev");
channel.addEventListener("message", ({ data }) => {
  if (data === "token?" && token) channel.postMessage({ token });
});

function asked() {
  return new Promise((resolve) => {
    const answer = ({ data }) => typeof data?.token === "string" && resolve(data.token);
    channel.addEventListener("message", answer);
    channel.postMessage("token?");
    setTimeout(() => resolve(null), 300);
  });
}

export class Refused extends Error {
  constructor(status, text, path) {
    super(text);
    this.status = status;
    this.path = path;
  }
}

async function request(path, options = {}) {
  const response = await fetch(path, {
    ...options,
    headers: { ...options.headers, Authorization: `Bearer ${token}` },
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
  }).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "mcprev dev does not respond: is the command still running?");
  });
  if (response.ok) return response;
  const found = await response.json().catch(() => ({}));
  throw new Refused(response.status, typeof found.error === "string" ? found.error : `${response.status} ${response.statusText}`, found.path);
}

export const get = async (path) => (await request(path)).json();
export const text_of = async (path) => (await request(path)).text();

/** POST JSON; `body` may be text that is JSON already, so that numbers stay as they were typed. */
export async function post(path, body = {}) {
  const response = await request(path, {
    method: "POST",
    body: typeof body === "string" ? body : JSON.stringify(body),
    headers: { "Content-Type": "application/json" },
  });
  const found = await response.text();
  return found ? JSON.parse(found) : {};
}

export async function post_file(path, file) {
  await request(path, { method: "POST", body: file, headers: { "Content-Type": "application/jsonl" } });
}

export async function remove(path) {
  await request(path, { method: "DELETE" });
}

/** Follow the stream of events, from a number on if the session is still the same one; `on` is told of each. */
export async function follow(session, since, on, signal) {
  const response = await request(`/api/stream?session=${encodeURIComponent(session)}&since=${since}`, { headers: { Accept: "text/event-stream" }, signal });
  await stream_events(response.body, on);
}
