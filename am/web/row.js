// One container's row. Its cells are made once; an update writes what differs.

import { make, setAttribute, setText } from "./dom.js";
import { NONE, bytes, count, duration, known, short, time, utc } from "./format.js";

// From here on a container's memory deserves a look, and from there it is nearly killed.
const MEMORY_WARM = 0.85;
const MEMORY_HOT = 0.95;
// A heartbeat comes every second or few; this long without one is worth a colour.
const QUIET_S = 20;

export const keyOf = (process) => `${process.role} ${process.rank}`;

export class Row {
  constructor(process, columns) {
    this.cells = Object.fromEntries(columns.map((column) => [column.id, cell(column)]));
    this.element = make("tr", { role: "row" }, ...Object.values(this.cells));
    const { state, memory, logs } = this.cells;
    this.word = make("span", { class: "word" });
    state.append(make("span", { class: "dot-mark" }), this.word);
    this.amount = make("span", { class: "amount" });
    this.used = make("i", { class: "used" });
    this.peak = make("i", { class: "peak" });
    this.gauge = make("span", { class: "gauge", "aria-hidden": "true" }, this.used, this.peak);
    memory.append(this.amount, this.gauge);
    this.link = null;
    this.logs = logs;
  }

  render(process, now, over) {
    const { rank, node, incarnation, cpu, rate, note } = this.cells;
    setAttribute(this.element, "data-process", process.state);
    setText(rank, `${process.role} ${process.rank}`);
    setAttribute(rank, "title", process.container || null);
    setText(this.word, process.state);
    setText(node, process.node || NONE);
    setAttribute(node, "title", [process.node, process.container].filter(Boolean).join(", "));
    setText(incarnation, process.incarnation || NONE);
    setAttribute(incarnation, "title", deaths(process.deaths));
    setText(cpu, known(process.cpu_percent) ? `${count(process.cpu_percent)} %` : NONE);
    this.memory(process);
    setText(rate, known(process.rows_per_s) ? count(process.rows_per_s) : NONE);
    setAttribute(rate, "title", work(process));
    this.heard(process, now, over);
    setText(note, process.note || tables(process.tables));
    setAttribute(note, "data-own", process.note ? "yes" : null);
    setAttribute(note, "title", process.note.length > 60 ? process.note : null);
    this.logAddress(process.logs);
  }

  memory({ memory, memory_peak: peak, memory_limit: limit }) {
    const cell = this.cells.memory;
    if (!known(memory)) {
      setText(this.amount, known(limit) ? `${NONE} of ${bytes(limit)}` : NONE);
      this.gauge.hidden = true;
      setAttribute(cell, "data-heat", null);
      return;
    }
    const most = Math.max(memory, peak ?? 0);
    const parts = [bytes(memory), known(peak) ? bytes(peak) : null, known(limit) ? bytes(limit) : null];
    setText(this.amount, parts.filter(Boolean).join(" · "));
    const title = [`now ${bytes(memory)}`, known(peak) && `peak ${bytes(peak)}`, known(limit) && `limit ${bytes(limit)}`];
    setAttribute(cell, "title", title.filter(Boolean).join(", "));
    this.gauge.hidden = !limit;
    if (!limit) return;
    this.used.style.width = `${Math.min(100, (100 * memory) / limit).toFixed(1)}%`;
    this.peak.style.left = `${Math.min(99, (100 * most) / limit).toFixed(1)}%`;
    const share = most / limit;
    setAttribute(cell, "data-heat", share >= MEMORY_HOT ? "hot" : share >= MEMORY_WARM ? "warm" : null);
  }

  heard({ last_heard: at, state }, now, over) {
    const cell = this.cells.heard;
    const ago = known(at) ? Math.max(0, now - at) : null;
    const live = !over && state !== "finished" && state !== "failed";
    setText(cell, ago === null ? NONE : live ? `${duration(ago)} ago` : time(at));
    setAttribute(cell, "title", known(at) ? `${time(at)} (${utc(at)})` : null);
    setAttribute(cell, "data-heat", live && ago > QUIET_S ? "warm" : null);
  }

  // A browser opens web addresses only: a folder on this machine is offered as text to copy.
  logAddress(address) {
    if (address === this.address) return;
    this.address = address;
    this.logs.replaceChildren(address ? logLink(address) : NONE);
  }
}

function cell(column) {
  const element = make("td", { role: "cell", class: column.number ? "number" : null, "data-label": column.name });
  element.dataset.column = column.id;
  return element;
}

function logLink(address) {
  if (/^https?:\/\//i.test(address)) {
    return make("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, "logs");
  }
  const path = address.replace(/^file:\/\//, "");
  const button = make("button", { type: "button", class: "copy", title: path }, "copy path");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(path);
      setText(button, "copied");
    } catch {
      button.replaceWith(make("code", {}, path));
    }
  });
  return button;
}

function deaths(number) {
  if (!number) return null;
  return number === 1 ? "died once" : `died ${number} times`;
}

function work(process) {
  const parts = [
    process.rows ? `${count(process.rows)} rows` : null,
    known(process.clock) ? `clock ${count(process.clock)}` : null,
    known(process.idle_s) ? `waited ${duration(process.idle_s)}` : null,
  ];
  return parts.filter(Boolean).join(", ") || null;
}

function tables(list) {
  return list
    .map((t) => `${t.name}: ${short(t.rows)} rows, ${bytes(t.bytes)}${losses(t)}`)
    .join("; ");
}

// What the table's policies have cost, as in `yarnps status`.
function losses(table) {
  const words = [
    [table.ignored, "ignored"],
    [table.evicted, "evicted"],
    [table.expired, "expired"],
    [table.waiting, "not admitted"],
    [table.nonfinite, "with NaN or infinity"],
  ];
  const found = words.filter(([n]) => n).map(([n, word]) => `${short(n)} ${word}`);
  return found.length ? ` (${found.join(", ")})` : "";
}
