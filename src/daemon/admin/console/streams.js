// The table of streams: a page of them, as the server has searched and sorted them.

import { act, streamPath } from "./api.js";
import { Rows, button, element, make, makeRow, setCells, setHidden, setText } from "./dom.js";
import { bits, bytes, count, duration } from "./format.js";
import { Spark } from "./plot.js";
import { openPreview } from "./preview.js";

const PAGE = 50;
const SEARCH_MS = 200; // After the last key.
const SPARK_AT = 6, ACTIONS_AT = 10;

// sort: the API's word; down: what comes first is the most.
const COLUMNS = [
  { title: "stream", sort: "name" }, { title: "state", sort: "state" }, { title: "publisher", sort: "publisher" },
  { title: "media", sort: "media", down: true }, { title: "recording", sort: "recording", down: true },
  { title: "in", sort: "rate", down: true, number: true }, { title: "last minute" },
  { title: "players", sort: "players", down: true, number: true }, { title: "lost", sort: "lost", down: true, number: true },
  { title: "up", sort: "uptime", down: true, number: true }, { title: "actions", hidden: true },
];

const view = { search: "", sort: "name", down: false, offset: 0 };
let matching = 0;
let refresh = () => {};
let rows = null;

export function overviewPath() {
  return "api/v1/overview?" + new URLSearchParams({ search: view.search, sort: view.sort,
    order: view.down ? "desc" : "asc", offset: view.offset, limit: PAGE });
}

function showOrder() {
  [...element("stream-heads").cells].forEach((head, at) => {
    if (COLUMNS[at].sort)
      head.setAttribute("aria-sort", COLUMNS[at].sort !== view.sort ? "none" : view.down ? "descending" : "ascending");
  });
}

function sortBy(column) {
  if (view.sort === column.sort) view.down = !view.down;
  else Object.assign(view, { sort: column.sort, down: Boolean(column.down) });
  view.offset = 0;
  showOrder();
  refresh();
}

function makeHead(column) {
  const head = make("th", { scope: "col", class: column.number && "number" });
  if (column.sort) head.append(button(column.title, () => sortBy(column)));
  else head.append(column.hidden ? make("span", { class: "hidden" }, column.title) : column.title);
  return head;
}

function turnPage(pages) {
  view.offset = Math.max(0, view.offset + pages * PAGE);
  refresh();
}

// How many tracks there are besides the one that every player gets.
function others(kind) {
  return kind.tracks.length > 1 ? " +" + (kind.tracks.length - 1) : "";
}

export function media(stream) {
  const parts = [];
  if (stream.video) {
    const size = stream.video.width ? " " + stream.video.width + "x" + stream.video.height : "";
    parts.push(stream.video.codec + size + others(stream.video));
  }
  if (stream.audio) parts.push(stream.audio.codec + others(stream.audio));
  return parts.join(", ");
}

// Whether it is recorded, and if that is not by the rules.
export function recording(stream) {
  const one = stream.recording;
  const state = one ? (one.state === "recording" ? bytes(one.bytes) : one.state) : "";
  return [state, stream.record === "rule" ? "" : stream.record].filter(Boolean).join(", ");
}

export function stateText(stream) {
  const silent = stream.publisher && stream.publisher.silent_seconds >= 2;
  return silent ? "silent for " + duration(stream.publisher.silent_seconds) : stream.state;
}

// The publisher, or the stream that stands in for it.
function sourceText(stream) {
  const publisher = stream.publisher;
  if (publisher) return publisher.protocol + " " + publisher.address;
  return stream.backup ? "backup " + stream.backup : "";
}

export function switchRecording(name, on) {
  return act(on ? "POST" : "DELETE", "api/v1/recordings/" + encodeURIComponent(name), "Recording of " + name);
}

function createRow(stream) {
  const row = makeRow(COLUMNS), name = stream.name;
  row.spark = new Spark();
  row.cells[SPARK_AT].append(row.spark.node);
  row.cells[0].append(make("a", { href: "#/streams/" + encodeURIComponent(name) }, name));
  row.recordButton = button("record", () => switchRecording(name, !row.dataset.recording), "Recording of " + name);
  row.cells[ACTIONS_AT].append(make("div", { class: "actions" },
    button("preview", () => openPreview(name), "Preview of " + name), row.recordButton,
    button("kick", () => act("DELETE", streamPath(name), "Kick", "Kick publisher and players of " + name + "?"),
      "Kick publisher and players of " + name)));
  return row;
}

function showRow(row, stream) {
  row.className = stream.state;
  row.dataset.stream = stream.name;
  setCells(row, [
    null, stateText(stream), sourceText(stream), media(stream), recording(stream),
    bits(stream.bits_per_second), null, count(stream.subscribers), count(stream.frames_dropped),
    duration(stream.uptime_seconds)]);
  row.dataset.recording = stream.recording ? "yes" : "";
  row.recordButton.setAttribute("aria-pressed", Boolean(stream.recording));
  row.spark.add(stream.bits_per_second);
}

function emptyText(counts) {
  if (view.search) return "No stream's name or publisher's address contains “" + view.search + "”.";
  return counts.live + counts.waiting ? "" : "Nobody publishes, and nobody waits: see the URLs above.";
}

// document: of the path above. False: it is another page that is to be shown.
export function showStreams(document) {
  matching = document.matching;
  if (view.offset > 0 && view.offset >= matching) {
    view.offset = matching ? Math.floor((matching - 1) / PAGE) * PAGE : 0;
    return false;
  }
  rows.update(document.streams);
  const last = view.offset + document.streams.length;
  setText(element("range"), matching ? count(view.offset + 1) + "–" + count(last) + " of " + count(matching) : "");
  element("previous").disabled = view.offset === 0;
  element("next").disabled = last >= matching;
  setText(element("no-streams"), emptyText(document.counts));
  setHidden(element("no-streams"), matching > 0);
  return true;
}

// call: asks for another page.
export function initStreams(call) {
  refresh = call;
  rows = new Rows(element("stream-rows"), createRow, showRow);
  element("stream-heads").append(...COLUMNS.map(makeHead));
  showOrder();
  element("previous").addEventListener("click", () => turnPage(-1));
  element("next").addEventListener("click", () => turnPage(1));
  let timer = 0;
  element("search").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      Object.assign(view, { search: element("search").value, offset: 0 });
      refresh();
    }, SEARCH_MS);
  });
}
