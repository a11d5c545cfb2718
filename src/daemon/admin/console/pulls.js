// Streams that come from other servers.

import { act, get } from "./api.js";
import { Rows, button, element, makeRow, setCells, setHidden, setText } from "./dom.js";
import { count, duration } from "./format.js";

const MOST = 200; // Rows: those that fail first.
const COLUMNS = [{}, {}, {}, {}, { number: true }, { number: true }, {}, {}, {}];

// Pulls of the configuration stay until it is without them.
function createRow(pull) {
  const row = makeRow(COLUMNS);
  if (pull.source === "api")
    row.cells[8].append(button("remove",
      () => act("DELETE", "api/v1/pulls/" + pull.id, "Remove", "Remove the pull of " + pull.stream + "?"),
      "Remove the pull of " + pull.stream));
  return row;
}

export function stepText(one) {
  if (one.step) return one.state + ", " + one.step;
  if (one.retry_seconds !== null && one.retry_seconds !== undefined)
    return one.state + ", again in " + duration(Math.ceil(one.retry_seconds));
  return one.state;
}

function showRow(row, pull) {
  row.className = pull.state === "waiting" ? "failing" : pull.state === "idle" ? "waiting" : "";
  row.dataset.pull = pull.stream;
  setCells(row, [
    pull.stream, pull.type, pull.from, stepText(pull), count(pull.failures),
    pull.ttl_seconds === null ? "" : duration(pull.ttl_seconds), pull.source + (pull.mode === "always" ? "" : ", " + pull.mode),
    pull.reason || ""]);
}

const rows = new Rows(element("pull-rows"), createRow, showRow);

export async function updatePulls() {
  const { pulls, total } = await get("api/v1/pulls?limit=" + MOST);
  const failing = (pull) => pull.state === "waiting";
  pulls.sort((a, b) => failing(b) - failing(a) || (a.stream < b.stream ? -1 : 1));
  setHidden(element("pulls"), pulls.length === 0);
  rows.update(pulls);
  setHidden(element("more-pulls"), total <= MOST);
  setText(element("more-pulls"), "and " + count(total - MOST) + " more");
}
