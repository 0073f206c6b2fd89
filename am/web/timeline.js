// The rate over time, and under it, on the same axis, a lane each for epochs, deaths, grants, saves
// and returns of the ApplicationMaster. A list says the same to those who do not see it.

import { arrange, byId, draw, make, setAttribute, setText, show } from "./dom.js";
import { count, short, tickTime, ticks, time, timeTicks, utc } from "./format.js";
import { LANES, laneOf, phases, symbol } from "./lanes.js";

const RATE_HEIGHT = 128;
const LANE_HEIGHT = 20;
const AXIS_HEIGHT = 20;
const PAD = { left: 58, right: 14, top: 8 };
const TICK_PX = 64;
// Marks nearer than this to each other become one, with a number that needs room, too: 500 grants
// at the start of a job are one thing that happened.
const APART_PX = 14;
const NUMBER_PX = 22;
const NEAR_PX = 8;
const HINT = "rows/s over time; point at a moment for its figures";
const TITLE_LINES = 8;
const LIST_LENGTH = 200;
// A hole in the rate that is this many times its usual step is drawn as one.
const HOLE_STEPS = 4;

export class Timeline {
  constructor() {
    this.hidden = new Set();
    this.marks = new Map();
    this.memory = null;
    this.svg = draw("svg", { class: "chart", role: "img", "aria-describedby": "marks-summary" });
    this.layers = Object.fromEntries(
      ["axis", "rate", "rules", "strip", "marks", "cursor"].map((name) => [name, draw("g", { class: name })]),
    );
    this.area = draw("path", { class: "area" });
    this.line = draw("path", { class: "line" });
    this.layers.rate.append(this.area, this.line);
    this.svg.append(...Object.values(this.layers));
    byId("plot").append(this.svg);
    setText(byId("readout"), HINT);
    this.buttons = this.legend();
    new ResizeObserver(() => this.draw()).observe(byId("plot"));
    byId("marks").addEventListener("toggle", () => this.list());
    for (const kind of ["pointermove", "pointerdown"]) {
      this.svg.addEventListener(kind, (event) => this.point(event));
    }
    this.svg.addEventListener("pointerleave", () => this.point(null));
  }

  legend() {
    return LANES.map((lane) => {
      const number = make("span", { class: "number" });
      const button = make("button", { type: "button", "aria-pressed": "true", class: "toggle" });
      button.append(draw("svg", { viewBox: "-7 -7 14 14", width: 14, height: 14, "aria-hidden": "true" },
        symbol(lane.id)), ` ${lane.name} `, number);
      button.addEventListener("click", () => {
        if (!this.hidden.delete(lane.id)) this.hidden.add(lane.id);
        setAttribute(button, "aria-pressed", !this.hidden.has(lane.id));
        this.draw();
        this.list();
      });
      byId("legend").append(button);
      return { lane, number };
    });
  }

  render(memory) {
    this.memory = memory;
    this.events = memory.events.filter((event) => laneOf(event.kind));
    for (const { lane, number } of this.buttons) {
      setText(number, this.events.filter((event) => laneOf(event.kind) === lane).length);
    }
    this.draw();
    this.list();
  }

  draw() {
    const width = Math.floor(byId("plot").clientWidth);
    if (!this.memory || !width) return;
    const { status, rate } = this.memory;
    const lanes = LANES.filter((lane) => !this.hidden.has(lane.id));
    const bottom = PAD.top + RATE_HEIGHT + lanes.length * LANE_HEIGHT + 6;
    setAttribute(this.svg, "viewBox", `0 0 ${width} ${bottom + AXIS_HEIGHT}`);
    setAttribute(this.svg, "height", bottom + AXIS_HEIGHT);
    const first = Math.min(status.started || status.now, rate[0]?.time ?? Infinity);
    const last = Math.max(status.ended ?? status.now, rate.at(-1)?.time ?? 0, first + 10);
    const most = Math.max(1, ...rate.map((point) => point.value)) * 1.08;
    const x = (at) => PAD.left + ((at - first) / (last - first)) * (width - PAD.left - PAD.right);
    const y = (value) => PAD.top + RATE_HEIGHT * (1 - value / most);
    this.frame = { x, first, last, width, lanes, bottom };
    this.axis(y, most);
    const { line, area } = paths(rate, x, y);
    setAttribute(this.line, "d", line);
    setAttribute(this.area, "d", area);
    this.strip();
    this.place();
    const say = `Rate over time, now ${count(status.progress.rows_per_s)} rows per second; `;
    setAttribute(this.svg, "aria-label", `${say}${this.events.length} events, listed below.`);
  }

  axis(y, most) {
    const { x, first, last, width, lanes, bottom } = this.frame;
    const busy = this.memory.rate.some((point) => point.value > 0);
    const { step, at } = timeTicks(first, last, Math.max(2, Math.floor((width - PAD.left) / TICK_PX)));
    this.layers.axis.replaceChildren(
      ...(busy ? [] : [draw("text", {
        class: "tick", x: (PAD.left + width) / 2, y: PAD.top + RATE_HEIGHT / 2, "text-anchor": "middle",
      }, "no rows yet")]),
      ...(busy ? ticks(0, most, 3) : [0]).flatMap((value) => [
        draw("line", { class: "grid", x1: PAD.left, x2: width - PAD.right, y1: y(value), y2: y(value) }),
        draw("text", { class: "tick", x: PAD.left - 12, y: y(value) + 3.5, "text-anchor": "end" }, short(value)),
      ]),
      ...lanes.flatMap((lane, i) => [
        draw("line", { class: "lane", x1: PAD.left, x2: width - PAD.right, y1: laneY(i), y2: laneY(i) }),
        draw("text", { class: "tick", x: PAD.left - 12, y: laneY(i) + 3.5, "text-anchor": "end" }, lane.name),
      ]),
      ...at.filter((t) => x(t) < width - 24).map((t) => draw("text", {
        class: "tick", x: x(t), y: bottom + 13, "text-anchor": x(t) < PAD.left + 16 ? "start" : "middle",
      }, tickTime(t, step))),
    );
  }

  // Epochs are not moments but stretches of time.
  strip() {
    const { x, first, last, lanes } = this.frame;
    const row = lanes.findIndex((lane) => lane.id === "epochs");
    if (row < 0) return this.layers.strip.replaceChildren();
    const parts = phases(this.memory.events, last).flatMap((phase) => {
      const [from, to] = [x(Math.max(first, phase.from)), x(Math.max(first, phase.to))];
      const box = draw("rect", {
        class: `phase ${phase.kind}`, x: from, y: laneY(row) - 7, height: 14, rx: 2,
        width: Math.max(1.5, to - from - 1),
      });
      const label = phase.kind === "train" ? `epoch ${phase.epoch}` : phase.kind;
      const fits = to - from > label.length * 6.2 + 6;
      const short = to - from > 12 && phase.kind === "train" ? phase.epoch : null;
      const text = fits ? label : short;
      if (text === null) return [box];
      const place = { class: "phase-text", x: (from + to) / 2, y: laneY(row) + 3.5, "text-anchor": "middle" };
      return [box, draw("text", place, text)];
    });
    return this.layers.strip.replaceChildren(...parts);
  }

  // Marks keep their elements, so that a title under the pointer stays open over an update.
  place() {
    const { x, first, lanes } = this.frame;
    const groups = lanes.flatMap((lane, i) => (lane.id === "epochs" ? [] : grouped(
      this.events.filter((event) => laneOf(event.kind) === lane && event.time >= first), x,
    ).map((group) => ({ lane, row: i, ...group }))));
    const wanted = new Map(groups.map((group) => [`${group.lane.id} ${group.events[0].time} ${group.events[0].seq}`, group]));
    for (const key of this.marks.keys()) if (!wanted.has(key)) this.marks.delete(key);
    for (const [key, group] of wanted) this.mark(key, group);
    arrange(this.layers.marks, [...wanted.keys()].map((key) => this.marks.get(key)));
    const rules = groups.filter((group) => group.lane.rule).map((group) => draw("line", {
      class: `rule ${group.lane.id}`, x1: group.x, x2: group.x, y1: PAD.top, y2: laneY(group.row) - 6,
    }));
    this.layers.rules.replaceChildren(...rules);
  }

  mark(key, { lane, row, events, x }) {
    if (!this.marks.has(key)) {
      const label = draw("text", { class: "many", x: 7, y: 3.5 });
      const title = draw("title");
      this.marks.set(key, draw("g", { class: "mark" }, symbol(lane.id), label, title));
    }
    const element = this.marks.get(key);
    const [, label, title] = element.children;
    setAttribute(element, "transform", `translate(${x.toFixed(1)} ${laneY(row)})`);
    setText(label, events.length > 1 ? events.length : "");
    const more = events.length - TITLE_LINES;
    const lines = events.slice(-TITLE_LINES).map((e) => `${time(e.time)}  ${e.text}`);
    setText(title, `${more > 0 ? `${more} earlier, then\n` : ""}${lines.join("\n")}\n(${utc(events.at(-1).time)})`);
  }

  point(event) {
    const readout = byId("readout");
    const { x, first, last, width, bottom } = this.frame ?? {};
    if (!event || !x) {
      setText(readout, HINT);
      return this.layers.cursor.replaceChildren();
    }
    const px = event.clientX - this.svg.getBoundingClientRect().left;
    const at = first + ((px - PAD.left) / (width - PAD.left - PAD.right)) * (last - first);
    if (at < first || at > last) return undefined;
    const { rate } = this.memory;
    const near = rate.reduce((a, b) => (!a || Math.abs(b.time - at) < Math.abs(a.time - at) ? b : a), null);
    const shown = this.events.filter((e) => !this.hidden.has(laneOf(e.kind).id) && Math.abs(x(e.time) - px) < NEAR_PX);
    const said = shown.slice(-2).map((e) => e.text).concat(shown.length > 2 ? [`${shown.length - 2} more`] : []);
    const figure = near && Math.abs(x(near.time) - px) < 3 * NEAR_PX ? [`${count(near.value)} rows/s`] : [];
    setText(readout, [time(at), ...figure, ...said].join(" · "));
    setAttribute(readout, "title", utc(at));
    const line = draw("line", { x1: px, x2: px, y1: PAD.top, y2: bottom });
    return this.layers.cursor.replaceChildren(line);
  }

  list() {
    const shown = (this.events ?? []).filter((event) => !this.hidden.has(laneOf(event.kind).id));
    setText(byId("marks-summary"), `As a list (${shown.length})`);
    show(byId("marks"), shown.length > 0);
    if (!byId("marks").open) return;
    const key = `${shown.length} ${shown.at(-1)?.seq}`;
    if (key === this.listed) return;
    this.listed = key;
    byId("marks-list").replaceChildren(...shown.slice(-LIST_LENGTH).reverse().map((event) => make("li", {},
      make("time", { datetime: new Date(event.time * 1000).toISOString(), title: utc(event.time) }, time(event.time)),
      ` ${laneOf(event.kind).name}: ${event.text}`)));
  }
}

const laneY = (row) => PAD.top + RATE_HEIGHT + 6 + (row + 0.5) * LANE_HEIGHT;

// Neighbours on the axis as one mark; `events` are in the order of time.
function grouped(events, x) {
  const out = [];
  for (const event of events) {
    const at = x(event.time);
    const group = out.at(-1);
    const room = APART_PX + (group?.events.length > 1 ? NUMBER_PX : 0);
    if (group && at - group.x < room) group.events.push(event);
    else out.push({ x: at, events: [event] });
  }
  return out;
}

function paths(rate, x, y) {
  const steps = rate.slice(1).map((p, i) => p.time - rate[i].time).sort((a, b) => a - b);
  const hole = HOLE_STEPS * Math.max(2, steps[Math.floor(steps.length / 2)] ?? 0);
  const runs = [];
  rate.forEach((point, i) => {
    if (!i || point.time - rate[i - 1].time > hole) runs.push([]);
    runs.at(-1).push(`${x(point.time).toFixed(1)} ${y(point.value).toFixed(1)}`);
  });
  const ground = y(0).toFixed(1);
  const line = runs.map((run) => `M${run.join("L")}`).join("");
  const area = runs.map((run) => {
    const [from, to] = [run[0].split(" ")[0], run.at(-1).split(" ")[0]];
    return `M${from} ${ground}L${run.join("L")}L${to} ${ground}Z`;
  }).join("");
  return { line, area };
}
