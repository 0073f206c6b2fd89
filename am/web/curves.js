// One small chart per metric: its points over epochs, or over time where it is reported more often.

import { arrange, byId, draw, make, setAttribute, setText, show } from "./dom.js";
import { known, metric, tickTime, ticks, time, timeTicks, utc } from "./format.js";

const HEIGHT = 140;
const PAD = { left: 52, right: 14, top: 16, bottom: 24 };
// Up to so many points each carries its value; beyond, the newest and the best do.
const VALUES_SHOWN = 6;
const DOTS_SHOWN = 60;
const TICK_PX = 64;
// A program may report any number of metrics: a chart each for the first of them.
const CHARTS = 24;

export class Curves {
  constructor() {
    this.cards = new Map();
    this.last = null;
    new ResizeObserver(() => this.redraw()).observe(byId("curves"));
  }

  render({ status }) {
    const names = Object.keys(status.curves).sort(testFirst).slice(0, CHARTS);
    show(byId("metrics"), names.length > 0);
    for (const name of names) if (!this.cards.has(name)) this.cards.set(name, new Card(name));
    arrange(byId("curves"), names.map((name) => this.cards.get(name).element));
    for (const name of names) {
      this.cards.get(name).render(own(status.curves, name), own(status.best, name));
    }
  }

  redraw() {
    for (const card of this.cards.values()) card.draw();
  }
}

// Metrics are named by people's programs, "__proto__" included.
const own = (record, name) => (Object.hasOwn(record, name) ? record[name] : undefined);

// What is measured on the test input says more than what a program reports of its batches.
function testFirst(a, b) {
  const rank = (name) => (name.startsWith("test_") ? 0 : 1);
  return rank(a) - rank(b) || a.localeCompare(b);
}

class Card {
  constructor(name) {
    this.newest = make("span", { class: "newest" });
    this.best = make("span", { class: "muted best" });
    this.chart = draw("svg", { class: "chart", role: "img", height: HEIGHT });
    const label = make("figcaption", {}, make("span", { class: "metric-name" }, name), this.newest, this.best);
    this.element = make("figure", { class: "curve" }, label, this.chart);
    this.name = name;
    this.key = "";
    this.width = 0;
    this.points = [];
  }

  render(points, best) {
    const last = points.at(-1);
    setText(this.newest, last ? metric(last.value) : "");
    setText(this.best, known(best) ? `best ${metric(best)}` : "");
    const key = `${points.length} ${last?.time} ${last?.value} ${best}`;
    if (key === this.key) return;
    Object.assign(this, { key, points: points.filter((p) => known(p.value)), bestValue: best });
    setAttribute(this.chart, "aria-label", spoken(this.name, points));
    this.width = 0;
    this.draw();
  }

  draw() {
    const width = Math.floor(this.element.clientWidth);
    if (!width || width === this.width) return;
    this.width = width;
    setAttribute(this.chart, "viewBox", `0 0 ${width} ${HEIGHT}`);
    this.chart.replaceChildren(...(this.points.length ? this.parts(width) : []));
  }

  parts(width) {
    const byEpoch = this.points.every((p, i) => p.epoch && (!i || p.epoch > this.points[i - 1].epoch));
    const x = scale(this.points.map((p) => (byEpoch ? p.epoch : p.time)), PAD.left, width - PAD.right, 0);
    const y = scale(this.points.map((p) => p.value), HEIGHT - PAD.bottom, PAD.top, 0.2);
    const at = this.points.map((p) => [x(byEpoch ? p.epoch : p.time), y(p.value)]);
    const line = at.map(([px, py]) => `${px.toFixed(1)},${py.toFixed(1)}`).join(" ");
    return [
      ...yAxis(y, width),
      ...this.xAxis(x, byEpoch, width),
      draw("polyline", { class: "line", points: line }),
      ...this.dots(at, byEpoch),
    ];
  }

  xAxis(x, byEpoch, width) {
    const wanted = Math.max(1, Math.floor((width - PAD.left) / TICK_PX));
    if (byEpoch) {
      const epochs = this.points.map((p) => p.epoch);
      const every = Math.ceil(epochs.length / wanted);
      const shown = epochs.filter((_, i) => (epochs.length - 1 - i) % every === 0);
      return shown.map((e) => xLabel(x(e), `epoch ${e}`, width));
    }
    const { step, at } = timeTicks(x.low, x.high, wanted);
    return at.map((t) => xLabel(x(t), tickTime(t, step), width));
  }

  dots(at, byEpoch) {
    const best = this.points.findIndex((p) => p.value === this.bestValue);
    const all = this.points.length <= VALUES_SHOWN;
    return this.points.flatMap((p, i) => {
      const last = i === this.points.length - 1;
      if (this.points.length > DOTS_SHOWN && !last && i !== best) return [];
      const [px, py] = at[i];
      const dot = draw("circle", { class: i === best ? "dot best" : "dot", cx: px, cy: py, r: 3 });
      const epoch = p.epoch ? `epoch ${p.epoch}: ` : "";
      dot.append(draw("title", {}, `${epoch}${metric(p.value)}, ${time(p.time)} (${utc(p.time)})`));
      if (!byEpoch || !(all || last || i === best)) return [dot];
      const anchor = last && i ? "end" : i ? "middle" : "start";
      const place = { class: "value", x: px, y: py + away(at, i), "text-anchor": anchor };
      return [dot, draw("text", place, metric(p.value))];
    });
  }
}

// Where the value stands: on the side of its point that the curve leaves free.
function away(at, i) {
  const beside = [at[i - 1], at[i + 1]].filter(Boolean).map(([, y]) => y);
  const mean = beside.reduce((sum, y) => sum + y, 0) / beside.length;
  return beside.length && mean < at[i][1] - 1 ? 16 : -7;
}

function spoken(name, points) {
  const some = points.slice(-12).map((p) => `${p.epoch ? `epoch ${p.epoch} ` : ""}${metric(p.value)}`);
  return `${name}: ${some.join(", ")}`;
}

// A linear scale over `values` into pixels; `margin` is the part of the span left free around them.
function scale(values, from, to, margin) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const spare = (most - least || Math.abs(most) * 0.1 || 1) * (margin || (most > least ? 0 : 0.5));
  const [low, high] = [least - spare, most + spare];
  const at = (value) => from + ((value - low) / (high - low)) * (to - from);
  return Object.assign(at, { low, high });
}

function yAxis(y, width) {
  return ticks(y.low, y.high, 4).flatMap((value) => [
    draw("line", { class: "grid", x1: PAD.left, x2: width - PAD.right, y1: y(value), y2: y(value) }),
    draw("text", { class: "tick", x: PAD.left - 6, y: y(value) + 3.5, "text-anchor": "end" }, metric(value)),
  ]);
}

function xLabel(px, text, width) {
  const anchor = px > width - 40 ? "end" : px < PAD.left + 20 ? "start" : "middle";
  const at = anchor === "end" ? Math.min(px, width - 2) : px;
  return draw("text", { class: "tick", x: at, y: HEIGHT - 6, "text-anchor": anchor }, text);
}
