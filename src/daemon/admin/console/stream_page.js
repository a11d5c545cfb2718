// The page of one stream: #/streams/NAME.

import { act, get, streamPath } from "./api.js";
import { Rows, button, element, make, makeRow, setCells, setHidden, setText, showFacts } from "./dom.js";
import { bits, bytes, count, duration, seconds } from "./format.js";
import { baseUrl, httpListener, listeners, streamUrlPath } from "./listeners.js";
import { FramePlot } from "./plot.js";
import { PlayerTable } from "./players.js";
import { openPreview } from "./preview.js";
import { recording, stateText, switchRecording } from "./streams.js";
import { showUrls } from "./urls.js";

const MOST_PLAYERS = 200;
const MOST_FILES = 20;
const ASKS = 3;
const TRACK_COLUMNS = [{}, {}, {}, { number: true }, { number: true }, { number: true }, { number: true }];

const framePlot = new FramePlot();
const players = new PlayerTable(element("stream").querySelector(".player-heads"), element("stream-player-rows"),
  element("stream-more-players"));
const tracks = new Rows(element("track-rows"), () => makeRow(TRACK_COLUMNS), showTrack);
let name = "";
let last = null; // The document.
let buttons = null;
let urls = null;
let recorded = null; // What the recording was when the list of its files was asked for.
let asksLeft = 0; // A file that has ended is in the list a moment later.
let trackCounts = new Map(); // By track: what it had at the time before.

function showTrack(row, track) {
  row.dataset.track = track.id;
  setCells(row, [track.id + (track.isDefault ? ", default" : ""), track.codec, track.format, track.frameRate, track.rate,
    count(track.frames), bytes(track.bytes)]);
}

// What a track has gained since the document before.
function trackRates(id, track, now) {
  const before = trackCounts.get(id);
  trackCounts.set(id, { frames: track.frames, bytes: track.bytes, at: before && before.at === now ? before.at : now });
  if (!before || now <= before.at || track.frames < before.frames) return { frameRate: "-", rate: "-" };
  const passed = (now - before.at) / 1000;
  return { frameRate: ((track.frames - before.frames) / passed).toFixed(1),
    rate: bits(((track.bytes - before.bytes) * 8) / passed) };
}

function listTracks(stream) {
  const now = performance.now();
  return ["video", "audio"].flatMap((kind) => (stream[kind] ? stream[kind].tracks : []).map((track) => {
    const id = kind + " " + track.id;
    const size = kind === "video" && track.default && stream.video.width
      ? stream.video.width + "x" + stream.video.height + (stream.video.frame_rate ? ", " + stream.video.frame_rate + " fps" : "")
      : "";
    return { id, codec: track.codec, isDefault: track.default, format: size, frames: track.frames, bytes: track.bytes,
      ...trackRates(id, track, now) };
  }));
}

// From the publisher to what players have been sent: the longest queue, and what is gathered for them.
function delay(stream) {
  if (!stream.players.length) return "no players" + (stream.receive_interval_ms ? ", read every " + stream.receive_interval_ms + " ms" : "");
  const most = Math.max(...stream.players.map((player) => player.queued_ms));
  return "at most " + (most < 1000 ? most + " ms" : seconds(most)) + " queued" +
    (stream.merge_window_ms ? ", window " + stream.merge_window_ms + " ms" + (stream.merge_window_auto ? " (automatic)" : "") : "");
}

function facts(stream) {
  const publisher = stream.publisher;
  const list = [["in", bits(stream.bits_per_second)], ["players", count(stream.subscribers)], ["delay", delay(stream)],
    [stream.state === "live" ? "live for" : "waiting for", duration(stream.uptime_seconds)],
    ["group", count(stream.gop.frames) + " frames, " + bytes(stream.gop.bytes)], ["lost", count(stream.frames_dropped)],
    ["worker", String(stream.worker)]];
  if (publisher) {
    list.unshift(["publisher", publisher.protocol + " " + publisher.address]);
    list.push(["jumps", count(publisher.timestamp_jumps)]);
    if (publisher.tracks_ignored.length) list.push(["not taken", publisher.tracks_ignored.join(", ")]);
  } else if (stream.backup) {
    list.unshift(["backup", stream.backup]);
  } else if (stream.previous_end) {
    list.push(["last publisher", stream.previous_end]);
  }
  return list;
}

function makeButtons() {
  const kick = "Kick publisher and players of " + name;
  buttons = {
    preview: button("preview", () => openPreview(name)),
    record: button("record", () => switchRecording(name, !last.recording)),
    publisher: button("kick publisher", () => act("DELETE", "api/v1/publishers/" + last.publisher.id, "Kick",
      "Kick the publisher of " + name + "?")),
    all: button("kick all", () => act("DELETE", streamPath(name), "Kick", kick + "?"), kick),
  };
  element("stream-actions").replaceChildren(...Object.values(buttons));
}

function recordingText(stream) {
  const one = stream.recording;
  const state = recording(stream);
  if (!one) return state ? "Not recorded: " + state + "." : "Not recorded.";
  const parts = [one.state, count(one.files) + (one.files === 1 ? " file" : " files"), bytes(one.bytes), count(one.frames) + " frames"];
  if (one.frames_dropped) parts.push(count(one.frames_dropped) + " frames dropped");
  if (one.queued_bytes) parts.push(bytes(one.queued_bytes) + " queued");
  if (one.error) parts.push(one.error);
  return parts.join(", ");
}

// The files, from the port for streams, which grants pages of this host to read them.
async function showFiles() {
  const listener = await httpListener(), target = element("recording-files"), asked = name;
  if (!listener || !(await listeners()).hasRecordings) return;
  const base = baseUrl("http", listener), list = base + "/recordings/" + streamUrlPath(name) + "/";
  const items = [];
  try {
    const answer = await fetch(list + "?limit=" + MOST_FILES);
    const document = answer.ok ? await answer.json() : { recordings: [] };
    for (const one of document.recordings)
      items.push(make("li", {}, make("a", { href: base + one.path, rel: "noreferrer" }, one.file), " " + bytes(one.bytes) + ", " +
        one.modified));
    if (document.next) items.push(make("li", {}, make("a", { href: list, rel: "noreferrer" }, "further recordings, as JSON")));
  } catch {
    items.push(make("li", {}, make("a", { href: list, rel: "noreferrer" }, "list of the recordings, as JSON")));
  }
  if (asked === name) target.replaceChildren(...items);
}

function showRecordings(stream) {
  setText(element("recording-state"), recordingText(stream));
  const state = stream.recording ? stream.recording.files + " " + stream.recording.state : "none";
  if (state !== recorded) asksLeft = recorded === null ? 1 : ASKS;
  recorded = state;
  if (asksLeft === 0) return;
  asksLeft--;
  showFiles().catch(() => {});
}

function show(stream) {
  last = stream;
  setText(element("stream-state"), stateText(stream));
  element("stream-state").className = "badge " + stream.state;
  buttons.publisher.hidden = !stream.publisher;
  buttons.record.setAttribute("aria-pressed", Boolean(stream.recording));
  showFacts(element("stream-facts"), facts(stream));
  framePlot.update(stream.last_minute);
  tracks.update(listTracks(stream));
  players.update(stream.players, stream.subscribers);
  showRecordings(stream);
}

export async function updateStreamPage() {
  const asked = name, stream = await get(streamPath(name) + "?players=" + MOST_PLAYERS);
  if (asked !== name) return;
  setHidden(element("stream-gone"), stream !== null);
  setHidden(element("stream-content"), stream === null);
  setHidden(element("stream-actions"), stream === null);
  if (stream) {
    show(stream);
    return;
  }
  setText(element("stream-state"), "");
  setText(element("stream-gone"), "There is no publisher and no player. The page shows the stream when there is one.");
}

export function openStreamPage(which) {
  name = which;
  last = null;
  recorded = null;
  trackCounts = new Map();
  for (const id of ["stream-name", "stream-path"]) setText(element(id), name);
  element("recording-files").replaceChildren();
  if (!framePlot.node.isConnected) element("stream-plots").append(framePlot.node);
  makeButtons();
  if (urls) urls.close();
  urls = showUrls(element("stream-urls"), () => name);
}
