// Requests to the API, with the token that the user has given, and what is said of their failures.

import { element, setHidden, setText } from "./dom.js";

let token = sessionStorage.getItem("sluiced-token") || "";
let refresh = () => {};

export function say(text) {
  setText(element("message"), text);
  setHidden(element("message"), !text);
}

export function call(method, path) {
  const headers = token ? { Authorization: "Bearer " + token } : {};
  return fetch(path, { method, headers, cache: "no-store" });
}

// A document; null where there is no such object. A failure is an Error with the reason.
export async function get(path) {
  const answer = await call("GET", path);
  setHidden(element("login"), answer.status !== 401);
  if (answer.ok) return answer.json();
  const detail = (await answer.json()).detail;
  if (answer.status === 404) return null;
  throw new Error(detail);
}

// Changes something, if the user confirms it where a question is asked.
export async function act(method, path, what, question) {
  if (question && !window.confirm(question)) return;
  const answer = await call(method, path);
  if (answer.ok) refresh();
  else say(what + ": " + (await answer.json()).detail);
}

export function streamPath(name) {
  return "api/v1/streams/" + encodeURIComponent(name);
}

// Calls the function after each change, and when a token has been entered.
export function onChange(call) {
  refresh = call;
  element("login").addEventListener("submit", (event) => {
    event.preventDefault();
    token = element("token").value;
    sessionStorage.setItem("sluiced-token", token);
    refresh();
  });
}
