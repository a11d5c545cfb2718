// Where the daemon listens, at the host by which this page was found.

import { get } from "./api.js";

let known = null;

// The port behind the last colon, the host before it.
function read(listener) {
  const at = listener.address.lastIndexOf(":");
  return { protocol: listener.protocol, tls: listener.tls, stream: listener.stream, host: listener.address.slice(0, at),
    port: Number(listener.address.slice(at + 1)) };
}

export async function listeners() {
  if (!known) {
    const config = await get("api/v1/config");
    known = config.listeners.map(read);
    known.hasRules = config.settings.rule.length > 0;
    known.hasRecordings = config.settings.record.length > 0;
  }
  return known;
}

// They may be others after a reload.
export function forgetListeners() {
  known = null;
}

// The first listener for HTTP that this page may use, which by HTTPS is one with TLS; null where there is none.
export async function httpListener() {
  const all = (await listeners()).filter((one) => one.protocol === "http");
  const secure = location.protocol === "https:";
  return all.find((one) => one.tls === secure) || all[0] || null;
}

// scheme://host:port, where the scheme of a listener with TLS has an "s" at its end.
export function baseUrl(scheme, listener) {
  return scheme + (listener.tls ? "s" : "") + "://" + location.hostname + ":" + listener.port;
}

export function streamUrlPath(name) {
  return name.split("/").map(encodeURIComponent).join("/");
}
