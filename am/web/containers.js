// The table of containers: worst first, sorted and filtered at will, updated cell by cell. Only the
// first rows of the order are in the page until someone asks for all of them.

import { arrange, byId, make, setAttribute, setText, show } from "./dom.js";
import { Row, keyOf } from "./row.js";
import { count, known } from "./format.js";

const ROWS_AT_FIRST = 50;

// get: what it is sorted by; down: the first click puts the highest first.
const COLUMNS = [
  { id: "rank", name: "rank", get: (p) => [p.role, p.rank] },
  { id: "state", name: "state", get: (p) => p.state },
  { id: "node", name: "node", get: (p) => p.node },
  { id: "incarnation", name: "incarnation", get: (p) => p.incarnation, down: true, number: true },
  { id: "cpu", name: "CPU", get: (p) => p.cpu_percent, down: true, number: true },
  { id: "memory", name: "memory, peak, limit", get: fullness, down: true, number: true },
  { id: "rate", name: "rows/s", get: (p) => p.rows_per_s, down: true, number: true },
  { id: "heard", name: "last heard", get: (p) => p.last_heard, number: true },
  { id: "note", name: "note", get: (p) => p.note || null },
  { id: "logs", name: "logs" },
];

function fullness(process) {
  const most = process.memory_peak ?? process.memory;
  return known(most) && process.memory_limit ? most / process.memory_limit : most;
}

export class Containers {
  constructor() {
    this.rows = new Map();
    this.sort = { id: "worst", down: false };
    this.state = "";
    this.all = false;
    this.processes = [];
    this.now = 0;
    this.chips = new Map();
    this.headers();
    byId("filter").addEventListener("input", () => this.draw());
    byId("role").addEventListener("change", () => this.draw());
    byId("rows-more").addEventListener("click", () => {
      this.all = !this.all;
      this.draw();
    });
  }

  headers() {
    const order = byId("order");
    order.append(make("option", { value: "worst" }, "worst first"));
    for (const column of COLUMNS) {
      const cell = make("th", { role: "columnheader", scope: "col", class: column.number ? "number" : null });
      cell.dataset.column = column.id;
      if (column.get) {
        const button = make("button", { type: "button", class: "sort" }, column.name);
        button.addEventListener("click", () => this.clicked(column));
        cell.append(button);
        order.append(make("option", { value: column.id }, `by ${column.name}`));
      } else {
        cell.textContent = column.name;
      }
      byId("columns").append(cell);
    }
    order.addEventListener("change", () => {
      const column = COLUMNS.find((c) => c.id === order.value);
      this.sort = { id: order.value, down: Boolean(column?.down) };
      this.draw();
    });
  }

  // One way, the other way, and back to worst first.
  clicked(column) {
    const first = Boolean(column.down);
    if (this.sort.id !== column.id) this.sort = { id: column.id, down: first };
    else if (this.sort.down === first) this.sort = { id: column.id, down: !first };
    else this.sort = { id: "worst", down: false };
    byId("order").value = this.sort.id;
    this.draw();
  }

  render({ status }) {
    this.processes = status.processes;
    this.now = status.now;
    this.over = status.outcome !== null;
    this.roles();
    this.tally();
    this.draw();
  }

  roles() {
    const select = byId("role");
    const known = new Set([...select.options].map((option) => option.value));
    for (const role of new Set(this.processes.map((p) => p.role))) {
      if (!known.has(role)) select.append(make("option", { value: role }, `${role}s`));
    }
  }

  // How many are in each state; a click shows only those.
  tally() {
    const counts = new Map();
    for (const p of this.processes) counts.set(p.state, (counts.get(p.state) ?? 0) + 1);
    if (this.state && !counts.has(this.state)) counts.set(this.state, 0);
    for (const [state, number] of counts) {
      if (!this.chips.has(state)) this.chips.set(state, this.chip(state));
      const chip = this.chips.get(state);
      setText(chip.lastChild, count(number));
      setAttribute(chip, "aria-pressed", this.state === state);
    }
    arrange(byId("tally"), [...counts.keys()].map((state) => this.chips.get(state)));
  }

  chip(state) {
    const chip = make("button", { type: "button", class: "toggle chip", "data-process": state },
      make("span", { class: "dot-mark" }), ` ${state} `, make("span", { class: "number" }));
    chip.addEventListener("click", () => {
      this.state = this.state === state ? "" : state;
      this.tally();
      this.draw();
    });
    return chip;
  }

  draw() {
    const wanted = this.ordered(this.processes.filter((p) => this.fits(p)));
    const shown = this.all ? wanted : wanted.slice(0, ROWS_AT_FIRST);
    const keys = new Set(this.processes.map(keyOf));
    for (const key of this.rows.keys()) if (!keys.has(key)) this.rows.delete(key);
    arrange(byId("rows"), shown.map((process) => this.row(process).element));
    for (const cell of byId("columns").children) {
      const { id, down } = this.sort;
      const direction = down ? "descending" : "ascending";
      setAttribute(cell, "aria-sort", cell.dataset.column === id ? direction : null);
    }
    this.more(wanted.length);
  }

  row(process) {
    const key = keyOf(process);
    if (!this.rows.has(key)) this.rows.set(key, new Row(process, COLUMNS));
    const row = this.rows.get(key);
    row.render(process, this.now, this.over);
    return row;
  }

  fits(process) {
    if (this.state && process.state !== this.state) return false;
    if (byId("role").value && process.role !== byId("role").value) return false;
    const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return true;
    const { role, rank, node, state, container, note } = process;
    const text = `${role} ${rank} ${role}-${rank} ${node} ${state} ${container} ${note}`.toLowerCase();
    // A number alone is a rank: "3" must not mean 13, 30 and every node with a 3 in its name.
    return words.every((word) => (/^\d+$/.test(word) ? String(rank) === word : text.includes(word)));
  }

  // The document's own order is worst first.
  ordered(processes) {
    const column = COLUMNS.find((c) => c.id === this.sort.id);
    if (!column) return processes;
    const sign = this.sort.down ? -1 : 1;
    const keyed = processes.map((process, i) => ({ process, i, value: column.get(process) }));
    keyed.sort((a, b) => unknownLast(a.value, b.value) || sign * compare(a.value, b.value) || a.i - b.i);
    return keyed.map(({ process }) => process);
  }

  more(fitting) {
    const hidden = fitting - ROWS_AT_FIRST;
    show(byId("rows-more"), hidden > 0);
    const text = this.all ? `Show the first ${ROWS_AT_FIRST} only` : `Show all ${count(fitting)}`;
    setText(byId("rows-more"), text);
    show(byId("rows-none"), fitting === 0);
    const none = this.processes.length ? "No container fits the filter." : "No containers yet.";
    setText(byId("rows-none"), none);
    show(byId("table"), fitting > 0);
  }
}

function unknownLast(a, b) {
  return Number(!known(a)) - Number(!known(b));
}

function compare(a, b) {
  if (Array.isArray(a)) return compare(a[0], b[0]) || compare(a[1], b[1]);
  if (typeof a === "string") return a.localeCompare(b, "en", { numeric: true });
  return (a ?? 0) - (b ?? 0);
}
