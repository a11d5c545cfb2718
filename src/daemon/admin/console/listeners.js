// Where the daemon listens, at the host by which this page was found.

import { get } from "./api.js";

let known = null;

// The port behind the last colon, the host before it.
function read(listener) {
  const at = listener.address.lastIndexOf(":");
  return { protocol: listener.protocol, stream: listener.stream, host: listener.address.slice(0, at),
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

// host:port of the first listener of that protocol; null where there is none.
export async function placeOf(protocol) {
  const listener = (await listeners()).find((one) => one.protocol === protocol);
  return listener ? location.hostname + ":" + listener.port : null;
}

export function streamUrlPath(name) {
  return name.split("/").map(encodeURIComponent).join("/");
}
