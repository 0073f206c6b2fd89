// What kinds of events the timeline shows, in which lane, with which symbol: told apart by shape
// as well as by colour.

import { draw } from "./dom.js";

// rule: its marks also cross the curve of the rate, because they explain its shape.
export const LANES = [
  { id: "epochs", name: "epochs", kinds: ["epoch"] },
  { id: "deaths", name: "deaths", kinds: ["death", "gave_up"], rule: true },
  { id: "grants", name: "grants", kinds: ["grant"] },
  { id: "saves", name: "saves", kinds: ["save", "model"] },
  { id: "am", name: "AM", kinds: ["start", "am_restart", "resume"], rule: true },
];

const BY_KIND = new Map(LANES.flatMap((lane) => lane.kinds.map((kind) => [kind, lane])));

export const laneOf = (kind) => BY_KIND.get(kind);

export function symbol(id) {
  const shape = { class: `symbol ${id}` };
  if (id === "epochs") return draw("rect", { ...shape, x: -6, y: -4, width: 12, height: 8, rx: 2 });
  if (id === "deaths") return draw("path", { ...shape, d: "M-4-4L4 4M-4 4L4-4" });
  if (id === "grants") return draw("circle", { ...shape, r: 3.6 });
  if (id === "saves") return draw("path", { ...shape, d: "M0-5L5 0L0 5L-5 0Z" });
  return draw("path", { ...shape, d: "M0-5L5 4L-5 4Z" });
}

// The stretches of preparation, training and evaluation: each ends where the next begins.
export function phases(events, last) {
  const out = [];
  for (const event of events) {
    const open = out.at(-1);
    const ends = event.kind === "end_of_data" || event.kind === "end";
    if (open && open.to === null && (event.kind === "epoch" || ends)) open.to = event.time;
    if (event.kind !== "epoch") continue;
    const kind = event.data?.phase ?? "train";
    out.push({ kind, epoch: event.data?.epoch ?? "?", from: event.time, to: null });
  }
  return out.map((phase) => ({ ...phase, to: phase.to ?? last }));
}
