// What happened, newest first. New events are put on top of those that are there already.

import { arrange, byId, make, setAttribute, setText, show } from "./dom.js";
import { count, time, utc } from "./format.js";

const SHOWN_AT_FIRST = 100;

const TROUBLE = new Set([
  "death", "gave_up", "error", "save_failed", "split_failed", "model_failed", "refused",
]);
const NEWS = new Set(["am_restart", "resume", "replay", "rollback", "patch", "clock", "stop"]);
const GOOD = new Set(["save", "metric", "model", "first_push", "ready"]);

export class Events {
  constructor() {
    this.lines = new Map();
    this.kind = "";
    this.all = false;
    this.options = new Map();
    byId("kind").append(make("option", { value: "" }), make("option", { value: "trouble" }));
    byId("kind").addEventListener("change", () => {
      this.kind = byId("kind").value;
      this.all = false;
      this.draw();
    });
    byId("events-more").addEventListener("click", () => {
      this.all = true;
      this.draw();
    });
  }

  render(memory) {
    this.memory = memory;
    this.kinds(memory.events);
    this.draw();
  }

  kinds(events) {
    const select = byId("kind");
    const counts = new Map();
    for (const event of events) counts.set(event.kind, (counts.get(event.kind) ?? 0) + 1);
    const trouble = events.filter((event) => TROUBLE.has(event.kind)).length;
    setText(select.options[0], `all kinds (${count(events.length)})`);
    setText(select.options[1], `trouble (${count(trouble)})`);
    for (const kind of [...counts.keys()].sort()) {
      if (!this.options.has(kind)) {
        this.options.set(kind, make("option", { value: `kind ${kind}` }));
        select.append(this.options.get(kind));
      }
      setText(this.options.get(kind), `${words(kind)} (${count(counts.get(kind))})`);
    }
  }

  draw() {
    const fitting = this.memory.events.filter((event) => this.fits(event)).reverse();
    const shown = this.all ? fitting : fitting.slice(0, SHOWN_AT_FIRST);
    const wanted = shown.map((event) => this.line(event));
    if (this.lines.size > 4 * wanted.length + SHOWN_AT_FIRST) this.lines.clear();
    arrange(byId("events-list"), wanted);
    show(byId("events-none"), fitting.length === 0);
    setText(byId("events-none"), this.memory.events.length ? "No events of this kind." : "No events yet.");
    show(byId("events-more"), fitting.length > shown.length);
    setText(byId("events-more"), `Show ${count(fitting.length - shown.length)} older ones`);
    show(byId("events-note"), this.memory.firstEventMissing);
    const where = this.memory.status.job_dir;
    setText(byId("events-note"), `Older events are in the job's directory: ${where}/events/`);
  }

  fits(event) {
    if (!this.kind) return true;
    if (this.kind === "trouble") return TROUBLE.has(event.kind);
    return this.kind === `kind ${event.kind}`;
  }

  line(event) {
    const key = `${event.time} ${event.seq}`;
    if (!this.lines.has(key)) this.lines.set(key, makeLine(event));
    return this.lines.get(key);
  }
}

const words = (kind) => kind.replaceAll("_", " ");

function makeLine(event) {
  const at = make("time", { datetime: new Date(event.time * 1000).toISOString(), title: utc(event.time) });
  at.textContent = time(event.time);
  const kind = make("span", { class: "kind" }, words(event.kind));
  const line = make("li", {}, at, kind, make("span", { class: "text" }, event.text));
  setAttribute(line, "data-tone", tone(event.kind));
  return line;
}

function tone(kind) {
  if (TROUBLE.has(kind)) return "trouble";
  if (NEWS.has(kind)) return "news";
  return GOOD.has(kind) ? "good" : null;
}
