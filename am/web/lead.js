// The first thing to read: the sentence, what the job waits for, why it failed, how far it is.

import { announce, arrange, byId, make, setAttribute, setPairs, setText, show } from "./dom.js";
import { count, duration, known, time, utc } from "./format.js";

// The sentence's figures change all the time; its state does not. It is said aloud at a change of
// state or of what is waited for, and otherwise this often.
const SAY_EVERY_S = 60;
// More epochs than this would be more lines than bar.
const EPOCH_LINES = 24;

export class Lead {
  constructor() {
    this.said = { key: "", at: 0 };
  }

  render({ status }) {
    const state = byId("state");
    setText(state, status.state);
    setAttribute(state, "data-state", status.state);
    sentence(status);
    setText(byId("name"), status.name || status.application);
    document.title = title(status);
    this.say(status);
    waits(status);
    cause(status);
    bar(status);
    setPairs(byId("figures"), figures(status));
    setPairs(byId("facts"), facts(status));
  }

  say(status) {
    const key = `${status.state} ${status.waits.map((wait) => wait.slice(0, 20))}`;
    if (key === this.said.key && status.now - this.said.at < SAY_EVERY_S) return;
    this.said = { key, at: status.now };
    announce(status.sentence);
  }
}

function title(status) {
  const part = status.outcome ? status.state.toLowerCase() : percent(status.progress.fraction);
  return `${part} · ${status.name || status.application} · yarnps`;
}

// Rounded, but not done before it is done.
function percent(fraction) {
  return `${fraction >= 1 ? 100 : Math.min(99, Math.round(100 * fraction))} %`;
}

// The sentence, with what the job waits for marked in it.
function sentence(status) {
  const element = byId("sentence");
  const key = JSON.stringify([status.sentence, status.waits]);
  if (element.key === key) return;
  element.key = key;
  let rest = status.sentence;
  const parts = [];
  for (const wait of status.waits) {
    const at = rest.indexOf(wait);
    if (at < 0) continue;
    parts.push(rest.slice(0, at), make("mark", {}, wait));
    rest = rest.slice(at + wait.length);
  }
  element.replaceChildren(...parts, rest);
}

// Only what the sentence has not said already.
function waits(status) {
  const list = byId("waits-list");
  const unsaid = status.waits.filter((wait) => !status.sentence.includes(wait));
  show(byId("waits"), unsaid.length > 0);
  arrange(list, unsaid.map((wait, i) => {
    const item = list.children[i] ?? make("li");
    setText(item, wait);
    return item;
  }));
}

function cause(status) {
  const outcome = status.outcome;
  const failed = outcome !== null && outcome.state !== "SUCCEEDED";
  show(byId("cause"), failed || Boolean(outcome?.cause));
  if (!outcome) return;
  setAttribute(byId("cause"), "data-state", outcome.state);
  setText(byId("cause-title"), outcome.cause_code ? `Cause: ${outcome.cause_code}` : "Cause");
  const text = outcome.cause || "not known";
  setText(byId("cause-text"), text);
  show(byId("cause-text"), text.includes("\n") || !status.sentence.includes(text));
  const help = outcome.retry_helps;
  const advice = help === true ? "Trying again can help." : "The same again would end the same way.";
  setText(byId("cause-help"), failed && known(help) ? advice : "");
  setText(byId("cause-traceback"), outcome.traceback);
  show(byId("cause-traceback"), Boolean(outcome.traceback));
}

function bar(status) {
  const element = byId("progress");
  const { fraction, epochs } = status.progress;
  const done = status.outcome?.state === "SUCCEEDED" ? 1 : Math.min(1, Math.max(0, fraction));
  element.firstElementChild.style.transform = `scaleX(${done})`;
  setAttribute(element, "aria-valuenow", Math.floor(100 * done));
  setAttribute(element, "aria-valuetext", `${percent(done)}, ${rowsOfTotal(status.progress)} rows`);
  setAttribute(element, "data-state", status.state);
  const lines = epochs > 1 && epochs <= EPOCH_LINES ? epochs - 1 : 0;
  if (element.childElementCount - 1 === lines) return;
  while (element.childElementCount > 1) element.lastElementChild.remove();
  for (let i = 1; i <= lines; i += 1) {
    const line = make("i", { class: "epoch-line" });
    line.style.left = `${(100 * i) / epochs}%`;
    element.append(line);
  }
}

function rowsOfTotal(progress) {
  const total = progress.rows_total ? ` of ${count(progress.rows_total)}` : "";
  return `${count(progress.rows)}${total}`;
}

function figures(status) {
  const p = status.progress;
  const running = status.outcome === null;
  const end = known(p.seconds_left) ? status.now + p.seconds_left : null;
  const took = (status.ended ?? status.now) - status.started;
  const average = took > 0 && p.rows ? `${count(p.rows / took)} rows/s` : null;
  const splits = `${count(p.splits_done)} of ${count(p.splits_total)}`;
  const leased = p.splits_leased ? `, ${count(p.splits_leased)} leased` : "";
  return [
    ["done", percent(p.fraction)],
    ["rows", rowsOfTotal(p)],
    ["epoch", p.epoch ? `${p.epoch} of ${p.epochs}${phase(status)}` : null],
    running ? ["rate", p.epoch ? `${count(p.rows_per_s)} rows/s` : null] : ["rate overall", average],
    [running ? "running for" : "took", duration(took)],
    ["ends about", running && end ? `${time(end)}, in ${duration(p.seconds_left)}` : null, utc(end)],
    ["splits of this epoch", running && p.splits_total ? splits + leased : null],
    ["restarts", p.epoch || status.restarts ? count(status.restarts) : null, "deaths of workers and servers, each one replaced"],
    ["AM restarts", status.am_restarts ? count(status.am_restarts) : null],
    ["bad records", p.bad_records ? count(p.bad_records) : null],
    ["skipped splits", p.skipped_splits ? count(p.skipped_splits) : null],
    ["lost rows", status.lost_rows ? count(status.lost_rows) : null, "their pushes were lost in the shards of servers that died: server.on_loss is patch"],
    ["last save", cut(status), utc(status.last_cut_time)],
  ];
}

function phase(status) {
  if (status.outcome !== null) return "";
  return { prepare: ", being prepared", test: ", on the test input" }[status.progress.phase] ?? "";
}

function cut(status) {
  if (!known(status.last_cut)) return null;
  const ago = status.now - (status.last_cut_time ?? status.now);
  const when = status.outcome === null ? `, ${duration(ago)} ago` : `, ${time(status.last_cut_time)}`;
  return `cut ${status.last_cut}${status.last_cut_time ? when : ""}`;
}

function facts(status) {
  const cluster = [status.cluster, status.queue && `queue ${status.queue}`].filter(Boolean);
  const program = [status.app, status.runtime].filter(Boolean).join(", ");
  const lag = status.am_loop_lag_s;
  return [
    ["application", status.application],
    ["attempt", status.attempt > 1 ? status.attempt : null],
    ["user", status.user],
    ["cluster", cluster.join(", ")],
    ["program", program],
    ["started", time(status.started), utc(status.started)],
    ["ended", status.ended ? time(status.ended) : null, utc(status.ended)],
    ["generation", status.generation || null],
    ["rows pushed", known(status.rows_pushed) ? count(status.rows_pushed) : null, "counted on the servers"],
    ["AM loop lag", lag >= 0.1 ? `${lag.toFixed(1)} s` : null],
    ["model", status.model],
    ["job directory", status.job_dir],
  ];
}
