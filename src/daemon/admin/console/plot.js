// Plots as inline SVG, each with a text that says the same.

import { make, setText } from "./dom.js";
import { bytes } from "./format.js";

const SPACE = "http://www.w3.org/2000/svg";
const WIDTH = 600, HEIGHT = 100;

function shape(name, attributes, ...children) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function canvas(label) {
  return shape("svg", { viewBox: "0 0 " + WIDTH + " " + HEIGHT, preserveAspectRatio: "none", role: "img", "aria-label": label });
}

function describe(svg, text) {
  if (svg.getAttribute("aria-label") !== text) svg.setAttribute("aria-label", text);
}

// A round number that is not below the value: 1, 2 or 5 times a power of ten.
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((step) => step * power >= value) * power;
}

// The points that are known; a gap begins a new line.
function linePath(values, points, most) {
  let path = "", drawing = false;
  values.forEach((value, at) => {
    if (value === null) {
      drawing = false;
      return;
    }
    const x = ((at + points - values.length) / Math.max(1, points - 1)) * WIDTH;
    const y = HEIGHT - (HEIGHT - 4) * (value / most) - 1;
    path += (drawing ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1);
    // One point alone is a short line.
    if (!drawing && (values[at + 1] === null || at + 1 === values.length)) path += "h-3";
    drawing = true;
  });
  return path;
}

// What stands around a drawing: the title with the latest value, the scale, the time.
function frame(title, svg) {
  const now = make("span", { class: "now" });
  const top = make("span", { class: "top" });
  const from = make("span");
  const node = make("figure", { class: "plot" },
    make("figcaption", {}, make("span", {}, title), now),
    make("div", { class: "canvas", "aria-hidden": false }, svg, top),
    make("div", { class: "axis", "aria-hidden": "true" }, from, make("span", {}, "now")));
  return { node, now, top, from };
}

// Lines over the last hour. format: of a value; least: of the scale's end.
export class LinePlot {
  constructor(title, format, least, names = []) {
    this.title = title;
    this.format = format;
    this.least = least;
    this.names = names;
    this.svg = canvas(title);
    this.frame = frame(title, this.svg);
    this.node = this.frame.node;
    this.legend = make("div", { class: "legend", "aria-hidden": "true" });
    if (names.length > 1) this.node.append(this.legend);
  }

  // series: a list of values for each line; from: what the left end is. One line is filled to the ground.
  update(series, points, from, summary) {
    const known = series.flat().filter((value) => value !== null);
    const most = ceiling(Math.max(this.least, ...known));
    const lines = series.map((values, at) => shape("path", {
      d: linePath(values, points, most), class: "line tone" + (at % 4), "vector-effect": "non-scaling-stroke" }));
    const last = series[0].findLastIndex((value) => value !== null);
    if (series.length === 1 && last > 0 && !series[0].includes(null)) {
      const first = ((points - series[0].length) / Math.max(1, points - 1)) * WIDTH;
      lines.unshift(shape("path", { class: "area", d: lines[0].getAttribute("d") + "V" + HEIGHT + "H" + first.toFixed(1) + "Z" }));
    }
    this.svg.replaceChildren(...lines);
    setText(this.frame.now, known.length ? summary : "no sample yet");
    setText(this.frame.top, this.format(most));
    setText(this.frame.from, from);
    const names = this.names.length > 1 ? this.names : [""];
    const told = series.slice(0, 16).map((values, at) => {
      const its = values.filter((value) => value !== null);
      if (!its.length) return "";
      return (names[at] ? names[at] + " " : "") + "now " + this.format(its[its.length - 1]) + ", least " +
        this.format(Math.min(...its)) + ", most " + this.format(Math.max(...its));
    }).filter(Boolean).join("; ");
    describe(this.svg, this.title + ", " + from + " until now: " + (told || "no sample yet"));
    if (this.names.length > 1 && this.legend.childElementCount !== Math.min(4, this.names.length))
      this.legend.replaceChildren(...this.names.slice(0, 4).map((name, at) =>
        make("span", { class: "key tone" + at }, name)));
  }
}

// The frames of each second of the last minute: their mean size, the largest one, and key frames.
export class FramePlot {
  constructor() {
    this.svg = canvas("Frame sizes");
    this.frame = frame("Frame sizes", this.svg);
    this.node = this.frame.node;
    this.node.classList.add("frames");
    this.node.append(make("div", { class: "legend", "aria-hidden": "true" },
      make("span", { class: "key mean" }, "mean"), make("span", { class: "key largest" }, "largest"),
      make("span", { class: "key keyframe" }, "key frames")));
  }

  bar(second, at, all, most) {
    const width = WIDTH / all, left = at * width, height = (size) => (HEIGHT - 6) * (size / most);
    const mean = second.frames ? second.bytes / second.frames : 0;
    const parts = [shape("title", {}, document.createTextNode(this.tell(second, all - 1 - at)))];
    const add = (name, size) => parts.push(shape("rect", {
      class: name, x: (left + 1).toFixed(1), width: (width - 2).toFixed(1), y: (HEIGHT - height(size)).toFixed(1),
      height: height(size).toFixed(1) }));
    if (second.largest) add("largest", second.largest);
    if (mean) add("mean", mean);
    if (second.key_frames)
      parts.push(shape("rect", { class: "keyframe", x: (left + 1).toFixed(1), width: (width - 2).toFixed(1), height: 3,
        y: (HEIGHT - height(second.largest_key) - 3).toFixed(1) }));
    return shape("g", { "data-frames": second.frames, "data-keys": second.key_frames }, ...parts);
  }

  tell(second, ago) {
    return ago + " s ago: " + second.frames + " frames, mean " + bytes(second.frames ? second.bytes / second.frames : 0) +
      ", largest " + bytes(second.largest) + ", " + second.key_frames + " key frames, largest " + bytes(second.largest_key);
  }

  update(seconds) {
    const most = Math.max(1, ...seconds.map((second) => second.largest));
    const sum = (key) => seconds.reduce((total, second) => total + second[key], 0);
    const frames = sum("frames"), keys = sum("key_frames");
    const summary = frames ? "mean " + bytes(sum("bytes") / frames) + ", largest " + bytes(most) : "no frames";
    const keyText = keys + (keys === 1 ? " key frame" : " key frames");
    this.svg.replaceChildren(...seconds.map((second, at) => this.bar(second, at, seconds.length, most)));
    setText(this.frame.now, summary + ", " + keyText);
    setText(this.frame.top, bytes(most));
    setText(this.frame.from, seconds.length + " s ago");
    describe(this.svg, "Frame sizes of the last minute: " + frames + " frames, " + summary + ", " + keyText);
  }
}

const SPARK_POINTS = 60; // A minute.

// A small line in a table's row; what it shows is in the row's other cells.
export class Spark {
  constructor() {
    this.values = [];
    this.path = shape("path", { "vector-effect": "non-scaling-stroke" });
    this.node = shape("svg", { viewBox: "0 0 " + (SPARK_POINTS - 1) + " 24", preserveAspectRatio: "none", class: "spark",
      "aria-hidden": "true" }, this.path);
  }

  add(value) {
    this.values.push(value);
    if (this.values.length > SPARK_POINTS) this.values.shift();
    const most = Math.max(1, ...this.values);
    const points = this.values.map((one, at) => (at + SPARK_POINTS - this.values.length) + "," + (23 - (22 * one) / most));
    this.path.setAttribute("d", points.length > 1 ? "M" + points.join("L") : "");
  }
}
