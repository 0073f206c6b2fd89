// The page: asks for the status document, keeps what it has seen, hands it to the sections.

import { Containers } from "./containers.js";
import { Curves } from "./curves.js";
import { announce, byId, setAttribute, setText } from "./dom.js";
import { Events } from "./events.js";
import { duration, time, utc } from "./format.js";
import { Lead } from "./lead.js";
import { Memory } from "./memory.js";
import { Poll } from "./poll.js";
import { Timeline } from "./timeline.js";

// A restart of the ApplicationMaster takes a few seconds.
const MAY_HAVE_ENDED_S = 30;

const memory = new Memory();
const sections = [new Lead(), new Curves(), new Timeline(), new Containers(), new Events()];

function render() {
  if (!memory.status) return;
  for (const section of sections) {
    // What one section cannot show must not take the others with it.
    try {
      section.render(memory);
    } catch (error) {
      console.error(error);
    }
  }
}

function take(status) {
  const whole = memory.take(status);
  if (whole && !document.hidden) render();
  return whole;
}

// While the ApplicationMaster is away, the words count on by themselves.
let connection = { live: true, answered: false };

function tell(news) {
  connection = news;
  const element = byId("connection");
  const [kind, text] = words(news);
  const before = element.dataset.live;
  if (kind !== before && (kind === "away" || before === "away")) announce(text);
  setAttribute(element, "data-live", kind);
  setText(element, text);
  setAttribute(element, "title", memory.status ? `data of ${utc(memory.status.now)}` : null);
  setAttribute(document.body, "data-live", kind);
}

function words(news) {
  const at = memory.status ? time(memory.status.now) : "";
  if (news.over || (news.ended && !news.live)) return ["over", "the job has ended; no more updates"];
  if (news.ended) return ["over", "the job has ended"];
  if (news.live) return news.answered ? ["live", `live · ${at}`] : ["wait", "connecting"];
  const since = `reconnecting since ${time(news.since / 1000)}`;
  if (!news.answered) return ["away", since];
  const seconds = (Date.now() - news.since) / 1000;
  const command = `yarnps status ${memory.status.application}`;
  const hint = seconds < MAY_HAVE_ENDED_S ? "" : `; it may have ended: ${command}`;
  return ["away", `${since} (${duration(seconds)})${hint}`];
}

// The ApplicationMaster waits a moment with its end for pages that are open: this is one of them.
const viewer = [...crypto.getRandomValues(new Uint32Array(2))].map((n) => n.toString(36)).join("");
const address = () => `status.json?events_after=${memory.lastSeq}&viewer=${viewer}`;
const poll = new Poll(address, take, tell);
document.addEventListener("visibilitychange", () => !document.hidden && render());
setInterval(() => !connection.live && !connection.over && tell(connection), 1000);
poll.start();
