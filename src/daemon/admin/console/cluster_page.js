// The page of the cluster: #/cluster. Names and addresses are what other nodes say.

import { get } from "./api.js";
import { Rows, element, make, makeRow, setCells, setHidden, setText, showFacts } from "./dom.js";
import { bits, count, duration, percent, seconds } from "./format.js";

const MOST = 200; // Rows: nodes that are dead first, pulls that fail first.
const PAGE = 50;
const SEARCH_MS = 200; // After the last key.
const LISTS_EACH = 2; // Periods.
const NODE_COLUMNS = [{}, {}, {}, { number: true }, { number: true }, { number: true }, { number: true }, { number: true }];
const PULL_COLUMNS = [{}, {}, {}, {}, {}, { number: true }, {}];
const LOCATION_COLUMNS = [{}, {}, {}, {}, { number: true }, { number: true }];

const view = { search: "", offset: 0 };
let refresh = () => {};
let periods = 0;

function showNode(row, node) {
  row.className = node.alive ? "" : "failing";
  row.dataset.node = node.name;
  setCells(row, [node.name, (node.alive ? "alive" : "dead") + (node.self ? ", this node" : ""), node.address || "", percent(node.cpu),
    bits(node.bits_per_second), count(node.streams), count(node.players), seconds(node.beat_seconds * 1000)]);
}

function createPull(pull) {
  const row = makeRow(PULL_COLUMNS);
  row.cells[0].append(make("a", { href: "#/streams/" + encodeURIComponent(pull.stream) }, pull.stream));
  return row;
}

function showPull(row, pull) {
  row.className = pull.failures ? "failing" : pull.state === "idle" ? "waiting" : "";
  row.dataset.pull = pull.stream;
  setCells(row, [null, pull.state, pull.node || "", pull.address || "", pull.from || "", count(pull.failures), pull.reason || ""]);
}

function showLocation(row, stream) {
  row.className = stream.confirmed ? "" : "waiting";
  row.dataset.stream = stream.name;
  setCells(row, [stream.name, stream.node + (stream.own ? ", this node" : ""), stream.address, stream.confirmed ? "yes" : "no",
    String(stream.epoch), duration(stream.age_seconds)]);
}

const nodes = new Rows(element("node-rows"), () => makeRow(NODE_COLUMNS), showNode, (one) => one.name);
const pulls = new Rows(element("node-pull-rows"), createPull, showPull, (one) => one.stream);
const locations = new Rows(element("location-rows"), () => makeRow(LOCATION_COLUMNS), showLocation, (one) => one.name);

function showMore(id, total) {
  setHidden(element(id), total <= MOST);
  setText(element(id), "and " + count(total - MOST) + " more");
}

function facts({ node, engine, streams, pulls: counts, claims }) {
  const list = [["address", node.address], [engine.available ? "engine available for" : "engine unavailable for", duration(engine.state_seconds)],
    ["engine", [engine.server, engine.version, engine.address && "at " + engine.address].filter(Boolean).join(" ")],
    ["engine connections", count(engine.connections)], ["streams here", count(streams.own)], ["known elsewhere", count(streams.remote)],
    ["pulls", count(counts.playing) + " playing"], ["failed pulls", count(counts.failures)], ["streams lost", count(claims.lost)]];
  if (engine.last_error) list.push(["last error", engine.last_error + ", " + duration(engine.last_error_seconds) + " ago"]);
  return list;
}

function showCluster(cluster) {
  setHidden(element("no-cluster"), cluster.enabled);
  setHidden(element("cluster-content"), !cluster.enabled);
  setText(element("cluster-name"), cluster.enabled ? cluster.node.name : "");
  setText(element("cluster-state"), cluster.enabled ? cluster.node.state : "");
  element("cluster-state").classList.toggle("live", cluster.enabled && cluster.node.state === "online");
  if (!cluster.enabled) return;
  showFacts(element("cluster-facts"), facts(cluster));
  cluster.nodes.sort((a, b) => a.alive - b.alive || (a.name < b.name ? -1 : 1));
  nodes.update(cluster.nodes.slice(0, MOST));
  showMore("more-nodes", cluster.nodes.length);
}

async function updateLocations() {
  const page = await get("api/v1/cluster/streams?" + new URLSearchParams({ search: view.search, offset: view.offset, limit: PAGE }));
  if (view.offset > 0 && view.offset >= page.matching) {
    view.offset = page.matching ? Math.floor((page.matching - 1) / PAGE) * PAGE : 0;
    return updateLocations();
  }
  locations.update(page.streams);
  const last = view.offset + page.streams.length;
  setText(element("location-range"), page.matching ? count(view.offset + 1) + "–" + count(last) + " of " + count(page.matching) : "");
  element("previous-locations").disabled = view.offset === 0;
  element("next-locations").disabled = last >= page.matching;
  setHidden(element("no-locations"), page.matching > 0);
  setText(element("no-locations"), view.search ? "No stream's name contains “" + view.search + "”." : "No stream is known.");
}

async function updatePulls() {
  const list = await get("api/v1/cluster/pulls?limit=" + MOST);
  list.pulls.sort((a, b) => (b.failures > 0) - (a.failures > 0) || (a.stream < b.stream ? -1 : 1));
  pulls.update(list.pulls);
  setHidden(element("no-node-pulls"), list.pulls.length > 0);
  showMore("more-node-pulls", list.total);
}

export async function updateClusterPage() {
  const cluster = await get("api/v1/cluster");
  showCluster(cluster);
  if (cluster.enabled && periods++ % LISTS_EACH === 0) await Promise.all([updatePulls(), updateLocations()]);
}

// The link above all pages. summary: of the overview; null: there is no cluster.
export function showClusterLink(summary) {
  setHidden(element("cluster-link"), !summary);
  if (summary) setText(element("cluster-node"), summary.node + ", " + count(summary.nodes_alive) + (summary.nodes_alive === 1 ? " node" : " nodes"));
}

// Empty if nothing is wrong.
export function clusterWarning(summary) {
  if (!summary) return "";
  if (summary.state === "replaced") return "Another process has joined the cluster as " + summary.node + ": this one publishes nothing.";
  return summary.engine_available ? "" : "The cluster's engine has been unavailable for " + duration(summary.engine_state_seconds) + ".";
}

function turnPage(pages) {
  view.offset = Math.max(0, view.offset + pages * PAGE);
  openClusterPage();
  refresh();
}

export function openClusterPage() {
  periods = 0;
}

// call: asks for all of the page again.
export function initClusterPage(call) {
  refresh = call;
  element("previous-locations").addEventListener("click", () => turnPage(-1));
  element("next-locations").addEventListener("click", () => turnPage(1));
  let timer = 0;
  element("location-search").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      Object.assign(view, { search: element("location-search").value, offset: 0 });
      turnPage(0);
    }, SEARCH_MS);
  });
}
