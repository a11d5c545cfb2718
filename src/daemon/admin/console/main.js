// The console: shows a page, and asks for what is on it each second.

import { get, onChange, say } from "./api.js";
import { certificateWarning, updateCertificates } from "./certificates.js";
import { updateBans } from "./bans.js";
import { clusterWarning, initClusterPage, openClusterPage, showClusterLink, updateClusterPage } from "./cluster_page.js";
import { element, setHidden, setText } from "./dom.js";
import { bits, bytes, count, duration } from "./format.js";
import { updateForwards } from "./forwards.js";
import { updateHistory } from "./history.js";
import { forgetListeners } from "./listeners.js";
import { PlayerTable } from "./players.js";
import { closePreview } from "./preview.js";
import { updatePulls } from "./pulls.js";
import { initStreams, overviewPath, showStreams } from "./streams.js";
import { openStreamPage, updateStreamPage } from "./stream_page.js";
import { addForms, showUrls } from "./urls.js";

const PERIOD_MS = 1000;
const TOTALS_EACH = 2, PULLS_EACH = 2, HISTORY_EACH = 10, CERTIFICATES_EACH = 10; // Of these periods.

const players = new PlayerTable(element("overview").querySelector(".player-heads"), element("player-rows"), element("more-players"));
let sent = null; // Bytes, and when they were counted.
let periods = 0;
let running = false, again = false;
let urls = null;

// The stream of #/streams/NAME; null: another page is shown.
function routedStream() {
  const match = /^#\/streams\/(.+)$/.exec(location.hash);
  try {
    return match && decodeURIComponent(match[1]);
  } catch {
    return null;
  }
}

const isClusterRouted = () => location.hash === "#/cluster";

function sentRate(bytesSent) {
  const now = performance.now(), before = sent;
  sent = { bytes: bytesSent, at: now };
  return before && now > before.at ? Math.max(0, ((bytesSent - before.bytes) * 8000) / (now - before.at)) : 0;
}

function showTotals(overview) {
  const { counts, pool } = overview;
  setText(element("version"), overview.version);
  setText(element("live"), count(counts.live) + (counts.waiting ? " + " + count(counts.waiting) + " waiting" : ""));
  setText(element("players"), count(counts.players));
  setText(element("slow"), count(counts.slow_players));
  element("slow").classList.toggle("bad", counts.slow_players > 0);
  setText(element("in"), bits(counts.bits_per_second));
  setText(element("out"), bits(sentRate(counts.bytes_sent)));
  setText(element("memory"), bytes(pool.bytes_held) + " of " + bytes(pool.bytes_max));
  setText(element("uptime"), duration(overview.uptime_seconds));
  showClusterLink(overview.cluster);
  const silent = counts.workers - counts.workers_answering;
  const warnings = [silent > 0 && silent + " of " + counts.workers + " workers do not answer.", clusterWarning(overview.cluster)];
  return warnings.filter(Boolean).join(" ");
}

// What is wrong, in one line.
async function updateOverview() {
  const overview = await get(overviewPath());
  const warning = showTotals(overview);
  if (!showStreams(overview)) return updateOverview();
  players.update(overview.players, overview.counts.players);
  if (periods % PULLS_EACH === 0) await Promise.all([updatePulls(), updateForwards(), updateBans()]);
  if (periods % HISTORY_EACH === 0) await updateHistory();
  return warning;
}

async function updatePage(updateIt) {
  const warning = periods % TOTALS_EACH === 0 ? showTotals(await get("api/v1/overview?limit=1")) : null;
  await updateIt();
  return warning;
}

function updateRouted() {
  if (isClusterRouted()) return updatePage(updateClusterPage);
  return routedStream() === null ? updateOverview() : updatePage(updateStreamPage);
}

async function update() {
  if (running) {
    again = true;
    return;
  }
  running = true;
  try {
    const warning = await updateRouted();
    if (periods % CERTIFICATES_EACH === 0) await updateCertificates();
    if (warning !== null) say([warning, certificateWarning()].filter(Boolean).join(" "));
  } catch (error) {
    say(error instanceof TypeError ? "The server does not answer." : error.message);
  }
  running = false;
  if (again) {
    again = false;
    update();
  }
}

async function showRoute() {
  const stream = routedStream(), isCluster = isClusterRouted();
  closePreview();
  setHidden(element("overview"), stream !== null || isCluster);
  setHidden(element("stream"), stream === null);
  setHidden(element("cluster"), !isCluster);
  document.title = isCluster ? "cluster - sluiced" : stream === null ? "sluiced" : stream + " - sluiced";
  periods = 0;
  if (isCluster) openClusterPage();
  if (stream !== null) openStreamPage(stream);
  await update();
}

initClusterPage(update);
initStreams(update);
addForms();
element("url-name").addEventListener("input", () => urls.update());
urls = showUrls(element("urls"), () => element("url-name").value.trim() || "live/stream");
onChange(() => {
  forgetListeners();
  periods = 0;
  urls.update();
  update();
});
window.addEventListener("hashchange", showRoute);
showRoute();
setInterval(() => {
  if (document.hidden) return;
  periods++;
  update();
}, PERIOD_MS);
