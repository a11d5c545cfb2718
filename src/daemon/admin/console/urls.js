// The URLs for publishing and playing, by each protocol that has a listener.

import { button, element, make, setText } from "./dom.js";
import { baseUrl, listeners, streamUrlPath } from "./listeners.js";

const FILE = "FILE";

// RTMP splits a URL into a server with an application, and a stream key.
function rtmpParts(base, name) {
  const at = name.lastIndexOf("/");
  return { server: base + "/" + name.slice(0, Math.max(at, 0)), key: name.slice(at + 1) };
}

// Raw FLV has the scheme of what it runs on.
function urlOf(listener) {
  const url = baseUrl(listener.protocol, listener);
  return listener.protocol === "flv" ? url.replace(/^flvs?/, listener.tls ? "tls" : "tcp") : url;
}

/*
 * What each protocol offers, by the form in which it is shown: lists of [label, text]. base: the listener's URL; name: of the
 * stream; http: the URL of the first listener for HTTP, or null.
 */
const PROTOCOLS = {
  rtmp: {
    title: "RTMP",
    urls: (base, name) => ({ publish: [["", base + "/" + name]], play: [["", base + "/" + name]] }),
    ffmpeg: (base, name) => ({
      publish: [["", "ffmpeg -re -i " + FILE + " -c copy -f flv " + base + "/" + name]],
      play: [["", "ffplay " + base + "/" + name]] }),
    obs: (base, name, listener, http) => ({
      publish: [["Settings > Stream > Custom: Server", rtmpParts(base, name).server], ["Stream Key", rtmpParts(base, name).key],
        ...(http ? [["Multitrack Video, Config Override (JSON): the output of", "curl " + http + "/obs/" + name]] : [])],
      play: [["Media Source, not a local file: Input", base + "/" + name]] }),
  },
  http: {
    title: "HTTP-FLV",
    urls: (base, name) => ({
      publish: [["POST", base + "/" + name + ".flv"]],
      play: [["", base + "/" + name + ".flv"], ["WebSocket", base.replace("http", "ws") + "/" + name + ".flv"]] }),
    ffmpeg: (base, name) => ({
      publish: [["", "ffmpeg -re -i " + FILE + " -c copy -f flv -method POST " + base + "/" + name + ".flv"]],
      play: [["", "ffplay " + base + "/" + name + ".flv"]] }),
    obs: (base, name) => ({
      publish: [["Output > Recording > Custom Output (FFmpeg), container flv: URL", base + "/" + name + ".flv"]],
      play: [["Media Source, not a local file: Input", base + "/" + name + ".flv"]] }),
  },
  rtsp: {
    title: "RTSP",
    urls: (base, name) => ({ publish: [["", base + "/" + name]], play: [["", base + "/" + name]] }),
    ffmpeg: (base, name) => ({
      publish: [["", "ffmpeg -re -i " + FILE + " -c copy -f rtsp -rtsp_transport tcp " + base + "/" + name]],
      play: [["", "ffplay -rtsp_transport tcp " + base + "/" + name]] }),
    obs: (base, name) => ({
      publish: [["Output > Recording > Custom Output (FFmpeg), container rtsp: URL", base + "/" + name]],
      play: [["Media Source, not a local file: Input", base + "/" + name]] }),
  },
  flv: {
    title: "FLV over TCP",
    urls: (base, name, listener) => ({
      publish: [[listener.stream ? "as " + listener.stream : "as live/flv-PEERPORT", base]], play: [] }),
    ffmpeg: (base, name, listener) => ({
      publish: [[listener.stream ? "as " + listener.stream : "as live/flv-PEERPORT",
        "ffmpeg -re -i " + FILE + " -c copy -f flv " + base]], play: [] }),
    obs: (base) => ({
      publish: [["Output > Recording > Custom Output (FFmpeg), container flv: URL", base]], play: [] }),
  },
};

const FORMS = [["urls", "URL"], ["ffmpeg", "ffmpeg"], ["obs", "OBS"]];
const ORDER = ["rtmp", "http", "rtsp", "flv"];
let form = "urls";
const views = new Set();

// A protocol that this page does not know has its address.
function unknown(protocol) {
  const both = (base) => ({ publish: [["", base]], play: [] });
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

// http: the URL of the first listener for HTTP, or null.
function row(listener, name, http) {
  const protocol = PROTOCOLS[listener.protocol] || unknown(listener.protocol);
  const texts = protocol[form](urlOf(listener), streamUrlPath(name), listener, http);
  const head = make("th", { scope: "row" }, protocol.title + (listener.tls ? ", TLS" : ""));
  if (isLoopback(listener.host) && !isLoopback(location.hostname))
    head.append(make("div", { class: "label" }, "on " + listener.host + " only"));
  const cell = (label, list) => make("td", { "data-label": label, class: !list.length && "none" },
    ...(list.length ? lines(list, protocol.title + " for " + label) : [make("span", { class: "label" }, "-")]));
  return make("tr", { "data-protocol": listener.protocol }, head, cell("publishing", texts.publish), cell("playing", texts.play));
}

function draw(view, all) {
  const name = view.name();
  const http = all.find((one) => one.protocol === "http");
  const httpUrl = http ? urlOf(http) : null;
  const place = (one) => (ORDER.indexOf(one.protocol) + 1 || ORDER.length + 1);
  const sorted = [...all].sort((a, b) => place(a) - place(b));
  const parts = [make("table", { class: "urls" },
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "protocol"), make("th", { scope: "col" }, "publish"),
      make("th", { scope: "col" }, "play"))),
    make("tbody", {}, ...sorted.map((listener) => row(listener, name, httpUrl))))];
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
