// The URLs for publishing and playing, by each protocol that has a listener.

import { button, element, make, setText } from "./dom.js";
import { listeners, streamUrlPath } from "./listeners.js";

const FILE = "FILE";

// RTMP splits a URL into a server with an application, and a stream key.
function rtmpParts(place, name) {
  const at = name.lastIndexOf("/");
  return { server: "rtmp://" + place + "/" + name.slice(0, Math.max(at, 0)), key: name.slice(at + 1) };
}

/*
 * What each protocol offers, by the form in which it is shown: lists of [label, text]. name: of the stream; listener: where.
 */
const PROTOCOLS = {
  rtmp: {
    title: "RTMP",
    urls: (place, name) => ({ publish: [["", "rtmp://" + place + "/" + name]], play: [["", "rtmp://" + place + "/" + name]] }),
    ffmpeg: (place, name) => ({
      publish: [["", "ffmpeg -re -i " + FILE + " -c copy -f flv rtmp://" + place + "/" + name]],
      play: [["", "ffplay rtmp://" + place + "/" + name]] }),
    obs: (place, name, listener, http) => ({
      publish: [["Settings > Stream > Custom: Server", rtmpParts(place, name).server], ["Stream Key", rtmpParts(place, name).key],
        ...(http ? [["Multitrack Video, Config Override (JSON): the output of", "curl http://" + http + "/obs/" + name]] : [])],
      play: [["Media Source, not a local file: Input", "rtmp://" + place + "/" + name]] }),
  },
  http: {
    title: "HTTP-FLV",
    urls: (place, name) => ({
      publish: [["POST", "http://" + place + "/" + name + ".flv"]],
      play: [["", "http://" + place + "/" + name + ".flv"], ["WebSocket", "ws://" + place + "/" + name + ".flv"]] }),
    ffmpeg: (place, name) => ({
      publish: [["", "ffmpeg -re -i " + FILE + " -c copy -f flv -method POST http://" + place + "/" + name + ".flv"]],
      play: [["", "ffplay http://" + place + "/" + name + ".flv"]] }),
    obs: (place, name) => ({
      publish: [["Output > Recording > Custom Output (FFmpeg), container flv: URL", "http://" + place + "/" + name + ".flv"]],
      play: [["Media Source, not a local file: Input", "http://" + place + "/" + name + ".flv"]] }),
  },
  rtsp: {
    title: "RTSP",
    urls: (place, name) => ({ publish: [["", "rtsp://" + place + "/" + name]], play: [["", "rtsp://" + place + "/" + name]] }),
    ffmpeg: (place, name) => ({
      publish: [["", "ffmpeg -re -i " + FILE + " -c copy -f rtsp -rtsp_transport tcp rtsp://" + place + "/" + name]],
      play: [["", "ffplay -rtsp_transport tcp rtsp://" + place + "/" + name]] }),
    obs: (place, name) => ({
      publish: [["Output > Recording > Custom Output (FFmpeg), container rtsp: URL", "rtsp://" + place + "/" + name]],
      play: [["Media Source, not a local file: Input", "rtsp://" + place + "/" + name]] }),
  },
  flv: {
    title: "FLV over TCP",
    urls: (place, name, listener) => ({
      publish: [[listener.stream ? "as " + listener.stream : "as live/flv-PEERPORT", "tcp://" + place]], play: [] }),
    ffmpeg: (place, name, listener) => ({
      publish: [[listener.stream ? "as " + listener.stream : "as live/flv-PEERPORT",
        "ffmpeg -re -i " + FILE + " -c copy -f flv tcp://" + place]], play: [] }),
    obs: (place) => ({
      publish: [["Output > Recording > Custom Output (FFmpeg), container flv: URL", "tcp://" + place]], play: [] }),
  },
};

const FORMS = [["urls", "URL"], ["ffmpeg", "ffmpeg"], ["obs", "OBS"]];
const ORDER = ["rtmp", "http", "rtsp", "flv"];
let form = "urls";
const views = new Set();

// A protocol that this page does not know has its address.
function unknown(protocol) {
  const both = (place) => ({ publish: [["", protocol + "://" + place]], play: [] });
  return { title: protocol, urls: both, ffmpeg: both, obs: both };
}

async function copy(text) {
  try {
    return await navigator.clipboard.writeText(text);
  } catch {
    // Pages by plain HTTP from other hosts have no clipboard, or it is not allowed.
  }
  const area = make("textarea", { class: "hidden", readonly: true });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("not copied");
  return undefined;
}

function copyButton(text, what) {
  const made = button("copy", async () => {
    try {
      await copy(text);
      setText(made, "copied");
    } catch {
      setText(made, "select it");
    }
    setTimeout(() => setText(made, "copy"), 1500);
  }, "Copy " + what);
  return made;
}

function lines(list, what) {
  return list.map(([label, text]) => make("div", { class: "copyable" },
    ...(label ? [make("span", { class: "label" }, label)] : []), make("code", {}, text),
    copyButton(text, what + (label ? ", " + label : ""))));
}

function isLoopback(host) {
  return host.startsWith("127.") || host === "[::1]" || host === "localhost";
}

// http: the place of the first listener for HTTP, or null.
function row(listener, name, http) {
  const protocol = PROTOCOLS[listener.protocol] || unknown(listener.protocol);
  const texts = protocol[form](location.hostname + ":" + listener.port, streamUrlPath(name), listener, http);
  const head = make("th", { scope: "row" }, protocol.title);
  if (isLoopback(listener.host) && !isLoopback(location.hostname))
    head.append(make("div", { class: "label" }, "on " + listener.host + " only"));
  const cell = (label, list) => make("td", { "data-label": label, class: !list.length && "none" },
    ...(list.length ? lines(list, protocol.title + " for " + label) : [make("span", { class: "label" }, "-")]));
  return make("tr", { "data-protocol": listener.protocol }, head, cell("publishing", texts.publish), cell("playing", texts.play));
}

function draw(view, all) {
  const name = view.name();
  const http = all.find((one) => one.protocol === "http");
  const httpPlace = http ? location.hostname + ":" + http.port : null;
  const place = (one) => (ORDER.indexOf(one.protocol) + 1 || ORDER.length + 1);
  const sorted = [...all].sort((a, b) => place(a) - place(b));
  const parts = [make("table", { class: "urls" },
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "protocol"), make("th", { scope: "col" }, "publish"),
      make("th", { scope: "col" }, "play"))),
    make("tbody", {}, ...sorted.map((listener) => row(listener, name, httpPlace))))];
  if (all.hasRules)
    parts.push(make("p", { class: "label" }, "Rules are set: a user or ?token=... may be needed."));
  view.target.replaceChildren(...parts);
}

async function drawAll() {
  const all = await listeners();
  for (const view of views) draw(view, all);
}

// Shows a table of the URLs in that element. name: a function that returns the stream's.
export function showUrls(target, name) {
  const view = { target, name };
  views.add(view);
  drawAll().catch(() => {});
  return { update: () => drawAll().catch(() => {}), close: () => views.delete(view) };
}

// The forms, of which one is chosen for all tables.
export function addForms() {
  for (const [value, title] of FORMS) {
    const input = make("input", { type: "radio", name: "url-form", value });
    input.checked = value === form;
    input.addEventListener("change", () => {
      form = value;
      drawAll().catch(() => {});
    });
    element("url-forms").append(make("label", {}, input, make("span", {}, title)));
  }
}
