// The table of players, of all streams or of one.

import { act } from "./api.js";
import { Rows, button, make, makeRow, setCells, setHidden, setText } from "./dom.js";
import { bits, bytes, count, seconds } from "./format.js";
import { Spark } from "./plot.js";

const COLUMNS = [
  { title: "address" }, { title: "stream" }, { title: "by" }, { title: "state" }, { title: "out", number: true },
  { title: "last minute" }, { title: "queued", number: true }, { title: "stalled", number: true },
  { title: "dropped", number: true }, { title: "actions", hidden: true },
];
const SPARK_AT = 5;

function order(a, b) {
  return b.slow - a.slow || (a.stream < b.stream ? -1 : a.stream > b.stream ? 1 : a.id - b.id);
}

export class PlayerTable {
  constructor(heads, body, more) {
    heads.append(...COLUMNS.map((column) => make("th", { scope: "col", class: column.number && "number" },
      column.hidden ? make("span", { class: "hidden" }, column.title) : column.title)));
    this.more = more;
    this.before = new Map(); // By id: bytes sent, and when that was.
    this.rows = new Rows(body, (player) => this.create(player), (row, player) => this.show(row, player));
  }

  create(player) {
    const row = makeRow(COLUMNS);
    row.spark = new Spark();
    row.cells[SPARK_AT].append(row.spark.node);
    row.cells[1].append(make("a", { href: "#/streams/" + encodeURIComponent(player.stream) }, player.stream));
    row.cells[COLUMNS.length - 1].append(button("kick",
      () => act("DELETE", "api/v1/players/" + player.id, "Kick", "Kick the player at " + player.address + "?"),
      "Kick the player at " + player.address));
    return row;
  }

  // null: it has not been seen before.
  rate(player, now) {
    const before = this.before.get(player.id);
    return before && now > before.at ? Math.max(0, ((player.bytes_sent - before.bytes) * 8000) / (now - before.at)) : null;
  }

  show(row, player) {
    const now = performance.now(), rate = this.rate(player, now);
    this.seen.set(player.id, { bytes: player.bytes_sent, at: now });
    row.className = player.slow ? "slow" : player.state;
    row.dataset.player = player.id;
    setCells(row, [
      player.address, null, player.protocol, player.slow ? "slow, " + player.state : player.state, bits(rate || 0), null,
      bytes(player.queued_bytes) + ", " + seconds(player.queued_ms), seconds(player.stalled_ms), count(player.frames_dropped)]);
    row.title = "dropped: " + Object.entries(player.drops).map(([cause, frames]) => cause + " " + frames).join(", ");
    if (rate !== null) row.spark.add(rate);
  }

  // players: those that are shown, of so many.
  update(players, all) {
    this.seen = new Map();
    this.rows.update([...players].sort(order));
    this.before = this.seen;
    const left = all - players.length;
    setHidden(this.more, left <= 0 && all > 0);
    setText(this.more, all === 0 ? "No players." : "and " + count(left) + " more, which are not slow");
  }
}
