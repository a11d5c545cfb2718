// Plays a stream in the page, by mpegts.js, which is a script of its own: window.mpegts.

import { element, setHidden, setText } from "./dom.js";
import { baseUrl, httpListener, streamUrlPath } from "./listeners.js";

let player = null;

export function closePreview() {
  if (player) player.destroy();
  player = null;
  setHidden(element("preview"), true);
}

export async function openPreview(name) {
  closePreview();
  setHidden(element("preview"), false);
  setText(element("preview-name"), name);
  const note = element("preview-message");
  if (!window.mpegts || !window.mpegts.isSupported()) {
    note.textContent = window.mpegts
      ? "This browser cannot play it."
      : "This build of sluiced has no mpegts.js, by which streams are played here.";
    return;
  }
  note.textContent = "";
  const listener = await httpListener();
  if (!listener) {
    note.textContent = "There is no HTTP listener to play from.";
    return;
  }
  const url = baseUrl("ws", listener) + "/" + streamUrlPath(name) + ".flv";
  player = window.mpegts.createPlayer({ type: "flv", isLive: true, url },
    { liveBufferLatencyChasing: true, enableStashBuffer: false });
  player.on(window.mpegts.Events.ERROR, (kind, detail) => {
    note.textContent = "Not played: " + kind + ", " + detail;
  });
  player.attachMediaElement(element("video"));
  player.load();
  player.play().catch(() => {});
  element("preview").scrollIntoView({ block: "nearest" });
}

element("preview-close").addEventListener("click", closePreview);
