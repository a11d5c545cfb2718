// Hosts that an operator has banned from streams.

import { act, get } from "./api.js";
import { Rows, button, element, makeRow, setCells, setHidden, setText } from "./dom.js";
import { count, duration } from "./format.js";

const MOST = 200; // Rows: those that end first.
const COLUMNS = [{}, {}, {}, {}, {}, {}];

function createRow(ban) {
  const row = makeRow(COLUMNS);
  const what = "Lift all bans of " + ban.stream;
  row.cells[5].append(button("lift", () => act("DELETE", "api/v1/bans/" + encodeURIComponent(ban.stream), "Lift", what + "?"), what));
  return row;
}

function showRow(row, ban) {
  row.dataset.ban = ban.stream;
  setCells(row, [ban.stream, ban.host, ban.scope === "cluster" ? "the cluster" : "this node", ban.node || "",
    duration(ban.ends_in_seconds), null]);
}

const rows = new Rows(element("ban-rows"), createRow, showRow, (ban) => ban.stream + " " + ban.host);

export async function updateBans() {
  const { bans } = await get("api/v1/bans");
  setHidden(element("bans"), bans.length === 0);
  rows.update(bans.slice(0, MOST));
  setHidden(element("more-bans"), bans.length <= MOST);
  setText(element("more-bans"), "and " + count(bans.length - MOST) + " more");
}
