// Streams that the daemon sends to other servers.

import { get } from "./api.js";
import { Rows, element, make, makeRow, setCells, setHidden, setText } from "./dom.js";
import { bytes, count } from "./format.js";
import { stepText } from "./pulls.js";

const MOST = 200; // Rows: those that fail first.
const COLUMNS = [{}, {}, {}, {}, { number: true }, { number: true }, { number: true }, {}];

function isFailing(forward) {
  return forward.state === "waiting" || forward.state === "stopped";
}

// What is usual is not said: all tracks, or the only ones that RTSP has.
function stateText(forward) {
  return stepText(forward) + (forward.tracks === "default" && forward.type !== "rtsp" ? ", default tracks" : "");
}

function createRow(forward) {
  const row = makeRow(COLUMNS);
  row.cells[0].append(make("a", { href: "#/streams/" + encodeURIComponent(forward.stream) }, forward.stream));
  return row;
}

function showRow(row, forward) {
  row.className = isFailing(forward) ? "failing" : forward.state === "idle" ? "waiting" : "";
  row.dataset.forward = forward.stream;
  setCells(row, [null, forward.to, forward.type, stateText(forward), bytes(forward.bytes_sent), count(forward.frames_dropped),
    count(forward.failures), forward.reason || ""]);
}

const rows = new Rows(element("forward-rows"), createRow, showRow);

export async function updateForwards() {
  const { forwards, total } = await get("api/v1/forwards?limit=" + MOST);
  forwards.sort((a, b) => isFailing(b) - isFailing(a) || (a.stream < b.stream ? -1 : a.stream > b.stream ? 1 : a.id - b.id));
  setHidden(element("forwards"), forwards.length === 0);
  rows.update(forwards);
  setHidden(element("more-forwards"), total <= MOST);
  setText(element("more-forwards"), "and " + count(total - MOST) + " more");
}
