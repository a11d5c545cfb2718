// Plots of the last hour.

import { get } from "./api.js";
import { element } from "./dom.js";
import { bits, count, duration, percent } from "./format.js";
import { LinePlot } from "./plot.js";

const LEAST_POINTS = 30; // Of the width: a server that has just been started has a line to look at.

let plots = null;

function build(workers) {
  const names = Array.from({ length: workers }, (_, at) => "worker " + at);
  plots = {
    received: new LinePlot("Input", bits, 1000),
    sent: new LinePlot("Output", bits, 1000),
    cpu: new LinePlot(workers > 1 ? "CPU per worker" : "CPU", percent, 0.1, names),
    dropped: new LinePlot("Dropped frames", count, 10, ["of players", "of publishers"]),
  };
  element("history").replaceChildren(...Object.values(plots).map((plot) => plot.node));
}

function latest(values) {
  const known = values.filter((value) => value !== null);
  return known.length ? known[known.length - 1] : 0;
}

export async function updateHistory() {
  const history = await get("api/v1/history");
  if (!plots) build(history.cpu.length);
  const { received_bits_per_second: received, sent_bits_per_second: sent, frames_dropped: dropped, frames_lost: lost } = history;
  const points = Math.min(history.samples_max, Math.max(LEAST_POINTS, received.length));
  const from = duration(points * history.interval_seconds) + " ago";
  plots.received.update([received], points, from, bits(latest(received)));
  plots.sent.update([sent], points, from, bits(latest(sent)));
  const cpu = history.cpu.map(latest);
  plots.cpu.update(history.cpu, points, from, cpu.length > 4 ? "most " + percent(Math.max(...cpu)) : cpu.map(percent).join(", "));
  const sum = [...dropped, ...lost].reduce((total, value) => total + (value || 0), 0);
  plots.dropped.update([dropped, lost], points, from, count(sum));
}
