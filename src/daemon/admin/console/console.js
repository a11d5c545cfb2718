"use strict";

// The console: asks for a snapshot each second, and shows it. What is shown comes from publishers, players and cameras, so
// it goes into the page as text only.

const PERIOD_MS = 1000;
const PLOT_POINTS = 60; // A minute.
const MOST_PLAYERS = 500; // Rows: the slow ones first.

const element = (id) => document.getElementById(id);
let token = sessionStorage.getItem("sluiced-token") || "";
let httpPort = 0; // Of the listener by which streams are played.
let last = null; // The snapshot before, and when it came.
const plots = new Map(); // By object id: values of the last minute.
let preview = null; // {name, player}
const rows = { streams: new Map(), pulls: new Map(), players: new Map() };

function call(method, path) {
  const headers = token ? { Authorization: "Bearer " + token } : {};
  return fetch(path, { method, headers, cache: "no-store" });
}

function say(text) {
  element("message").textContent = text;
  element("message").hidden = !text;
}

function bits(perSecond) {
  if (perSecond >= 1e6) return (perSecond / 1e6).toFixed(2) + " Mbit/s";
  return (perSecond / 1e3).toFixed(0) + " kbit/s";
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit++;
  }
  return count.toFixed(unit ? 1 : 0) + " " + units[unit];
}

function duration(seconds) {
  const s = Math.floor(seconds);
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 86400) return Math.floor(s / 3600) + " h " + (Math.floor(s / 60) % 60) + " min";
  return Math.floor(s / 86400) + " d " + (Math.floor(s / 3600) % 24) + " h";
}

function remember(id, value) {
  let values = plots.get(id);
  if (!values) plots.set(id, (values = []));
  values.push(value);
  if (values.length > PLOT_POINTS) values.shift();
  return values;
}

function drawPlot(svg, values) {
  const most = Math.max(1, ...values);
  const points = values.map((value, at) => (at + PLOT_POINTS - values.length) + "," + (23 - (22 * value) / most));
  svg.firstChild.setAttribute("d", points.length > 1 ? "M" + points.join("L") : "");
}

function newPlot() {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 " + (PLOT_POINTS - 1) + " 24");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.appendChild(document.createElementNS(space, "path"));
  return svg;
}

function newButton(text, act) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  button.addEventListener("click", act);
  return button;
}

// A row with so many cells; those of numbers to the right, and a plot in one of them.
function newRow(cells, numbers, plotAt) {
  const row = document.createElement("tr");
  for (let i = 0; i < cells; i++) {
    const cell = document.createElement("td");
    if (numbers.includes(i)) cell.className = "number";
    if (i === plotAt) cell.appendChild(newPlot());
    row.appendChild(cell);
  }
  return row;
}

function setCells(row, texts) {
  texts.forEach((text, at) => {
    if (text !== null && row.cells[at].textContent !== text) row.cells[at].textContent = text;
  });
}

// Ends something, if the user confirms it.
async function end(verb, path, what) {
  if (!window.confirm(verb + " " + what + "?")) return;
  const answer = await call("DELETE", path);
  if (answer.ok) update();
  else say(verb + " " + what + ": " + (await answer.json()).detail);
}

function newStreamRow(stream) {
  const row = newRow(10, [5, 7, 8], 6);
  const path = "api/v1/streams/" + encodeURIComponent(stream.name);
  row.cells[9].append(
    newButton("preview", () => openPreview(stream.name)), " ",
    newButton("record", () => record(stream.name, !row.dataset.recording)), " ",
    newButton("kick", () => end("Kick", path, "publisher and players of " + stream.name)));
  return row;
}

function media(stream) {
  const parts = [];
  if (stream.video) {
    const size = stream.video.width ? " " + stream.video.width + "x" + stream.video.height : "";
    parts.push(stream.video.codec + size + others(stream.video));
  }
  if (stream.audio) parts.push(stream.audio.codec + others(stream.audio));
  return parts.join(", ");
}

// How many tracks there are besides the one that every player gets.
function others(media) {
  return media.tracks.length > 1 ? " +" + (media.tracks.length - 1) : "";
}

// Whether it is recorded, and if that is not by the rules.
function recording(stream) {
  const one = stream.recording;
  const state = one ? (one.state === "recording" ? bytes(one.bytes) : one.state) : "";
  return [state, stream.record === "rule" ? "" : stream.record].filter(Boolean).join(", ");
}

async function record(name, on) {
  const answer = await call(on ? "POST" : "DELETE", "api/v1/recordings/" + encodeURIComponent(name));
  if (answer.ok) update();
  else say("Recording of " + name + ": " + (await answer.json()).detail);
}

function showStream(row, stream) {
  const publisher = stream.publisher;
  const silent = publisher && publisher.silent_seconds >= 2;
  row.className = stream.state;
  row.dataset.stream = stream.name;
  setCells(row, [
    stream.name,
    silent ? "silent for " + duration(publisher.silent_seconds) : stream.state,
    publisher ? publisher.protocol + " " + publisher.address : stream.backup ? "backup " + stream.backup : "",
    media(stream), recording(stream), bits(stream.bits_per_second), null, String(stream.subscribers), String(stream.frames_dropped)]);
  row.dataset.recording = stream.recording ? "yes" : "";
  row.querySelectorAll("button")[1].textContent = stream.recording ? "stop recording" : "record";
  drawPlot(row.cells[6].firstChild, remember(stream.id, stream.bits_per_second));
}

// Pulls of the configuration stay until it is without them.
function newPullRow(pull) {
  const row = newRow(9, [4, 5]);
  if (pull.source === "api")
    row.cells[8].append(newButton("remove", () => end("Remove", "api/v1/pulls/" + pull.id, "the pull of " + pull.stream)));
  return row;
}

function pullState(pull) {
  if (pull.step) return pull.state + ", " + pull.step;
  if (pull.retry_seconds !== null) return pull.state + ", again in " + duration(Math.ceil(pull.retry_seconds));
  return pull.state;
}

function showPull(row, pull) {
  row.className = pull.state === "waiting" ? "failing" : pull.state === "idle" ? "waiting" : "";
  row.dataset.pull = pull.stream;
  setCells(row, [
    pull.stream, pull.type, pull.from, pullState(pull), String(pull.failures),
    pull.ttl_seconds === null ? "" : duration(pull.ttl_seconds), pull.source + (pull.mode === "always" ? "" : ", " + pull.mode),
    pull.reason || ""]);
}

function newPlayerRow(player) {
  const row = newRow(10, [4, 6, 7, 8], 5);
  row.cells[9].append(newButton("kick", () => end("Kick", "api/v1/players/" + player.id, "the player at " + player.address)));
  return row;
}

function showPlayer(row, player, rate) {
  row.className = player.slow ? "slow" : player.state;
  row.dataset.player = player.id;
  setCells(row, [
    player.stream, player.address, player.protocol, player.slow ? "slow, " + player.state : player.state, bits(rate),
    null, bytes(player.queued_bytes) + ", " + (player.queued_ms / 1000).toFixed(1) + " s",
    (player.stalled_ms / 1000).toFixed(1) + " s", String(player.frames_dropped)]);
  row.title = "dropped: " + Object.entries(player.drops).map(([cause, count]) => cause + " " + count).join(", ");
  drawPlot(row.cells[5].firstChild, remember(player.id, rate));
}

// Puts the rows of a table in the order of the list, and takes away those of what is gone.
function showRows(body, kept, list, make, show) {
  const gone = new Set(kept.keys());
  list.forEach((one, at) => {
    gone.delete(one.id);
    let row = kept.get(one.id);
    if (!row) kept.set(one.id, (row = make(one)));
    if (body.rows[at] !== row) body.insertBefore(row, body.rows[at] || null);
    show(row, one);
  });
  for (const id of gone) {
    kept.get(id).remove();
    kept.delete(id);
    plots.delete(id);
  }
}

function show(state) {
  const now = performance.now();
  const seconds = last ? (now - last.at) / 1000 : 0;
  const before = new Map(last ? last.state.players.map((player) => [player.id, player.bytes_sent]) : []);
  const rate = (player) => {
    const from = before.get(player.id);
    return from === undefined || !seconds ? 0 : Math.max(0, ((player.bytes_sent - from) * 8) / seconds);
  };
  last = { at: now, state };
  const rates = new Map(state.players.map((player) => [player.id, rate(player)]));
  const slow = state.players.filter((player) => player.slow);
  state.streams.sort((a, b) => (a.name < b.name ? -1 : 1));
  state.pulls.sort((a, b) => (a.stream < b.stream ? -1 : 1));
  state.players.sort((a, b) => b.slow - a.slow || (a.stream < b.stream ? -1 : a.stream > b.stream ? 1 : a.id - b.id));

  element("version").textContent = state.version;
  element("live").textContent = state.streams.filter((stream) => stream.state === "live").length;
  element("players").textContent = state.players.length;
  element("slow").textContent = slow.length;
  element("in").textContent = bits(state.streams.reduce((sum, stream) => sum + stream.bits_per_second, 0));
  element("out").textContent = bits([...rates.values()].reduce((sum, one) => sum + one, 0));
  element("memory").textContent = bytes(state.pool.bytes_held) + " of " + bytes(state.pool.bytes_max);
  element("uptime").textContent = duration(state.uptime_seconds);
  element("no-streams").hidden = state.streams.length > 0;
  showRows(element("stream-rows"), rows.streams, state.streams, newStreamRow, showStream);
  element("pulls").hidden = state.pulls.length === 0;
  showRows(element("pull-rows"), rows.pulls, state.pulls, newPullRow, showPull);
  showRows(element("player-rows"), rows.players, state.players.slice(0, MOST_PLAYERS), newPlayerRow,
    (row, player) => showPlayer(row, player, rates.get(player.id)));
  const more = state.players.length - MOST_PLAYERS;
  element("more-players").hidden = more <= 0;
  element("more-players").textContent = "and " + more + " more";
}

async function update() {
  try {
    const answer = await call("GET", "api/v1/snapshot");
    element("login").hidden = answer.status !== 401;
    if (answer.ok) {
      show(await answer.json());
      say("");
    } else {
      say((await answer.json()).detail);
    }
  } catch (error) {
    say("The server does not answer.");
  }
}

// Streams are played from the first listener for HTTP, at the host by which this page was found.
async function findPlayPort() {
  if (httpPort) return httpPort;
  const config = await (await call("GET", "api/v1/config")).json();
  const http = config.listeners.find((listener) => listener.protocol === "http");
  httpPort = http ? Number(http.address.split(":").pop()) : 0;
  return httpPort;
}

function closePreview() {
  if (preview && preview.player) preview.player.destroy();
  preview = null;
  element("preview").hidden = true;
}

async function openPreview(name) {
  closePreview();
  element("preview").hidden = false;
  element("preview-name").textContent = name;
  const note = element("preview-message");
  if (!window.mpegts || !window.mpegts.isSupported()) {
    note.textContent = window.mpegts
      ? "This browser cannot play it."
      : "This build of sluiced has no mpegts.js, by which streams are played here.";
    return;
  }
  note.textContent = "";
  const port = await findPlayPort();
  if (!port) {
    note.textContent = "There is no HTTP listener to play from.";
    return;
  }
  const url = "ws://" + location.hostname + ":" + port + "/" + name + ".flv";
  const player = window.mpegts.createPlayer({ type: "flv", isLive: true, url },
    { liveBufferLatencyChasing: true, enableStashBuffer: false });
  preview = { name, player };
  player.on(window.mpegts.Events.ERROR, (kind, detail) => {
    note.textContent = "Not played: " + kind + ", " + detail;
  });
  player.attachMediaElement(element("video"));
  player.load();
  player.play().catch(() => {});
}

element("preview-close").addEventListener("click", closePreview);
element("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = element("token").value;
  sessionStorage.setItem("sluiced-token", token);
  update();
});

update();
setInterval(() => {
  if (!document.hidden) update();
}, PERIOD_MS);
