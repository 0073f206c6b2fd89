// Asks for the status again and again, and says how that goes. One question at a time, each with a
// limit; slower when nobody looks, and after failures; at the end of the job it stops.

const EVERY_MS = 2000;
const HIDDEN_MS = 15000;
const ENDED_MS = 10000;
const ASKS_AFTER_END = 6;
const ANSWER_LIMIT_MS = 10000;
const FAILED_MS = [1000, 2000, 3000, 5000];
// An ApplicationMaster that has been away for so long has most likely ended with its job.
const LONG_AWAY_MS = 300000;
const LONG_AWAY_EVERY_MS = 30000;

export class Poll {
  // ask: () => address; take: (status) => boolean, false to ask again at once;
  // tell: ({live, since, over}) => void
  constructor(ask, take, tell) {
    Object.assign(this, { ask, take, tell });
    this.failures = 0;
    this.failingSince = null;
    this.answered = false;
    this.asksAfterEnd = 0;
    this.over = false;
    this.timer = null;
    this.asking = false;
    document.addEventListener("visibilitychange", () => this.wake());
    window.addEventListener("online", () => this.wake());
    window.addEventListener("pageshow", (event) => event.persisted && this.wake());
  }

  start() {
    this.next(0);
  }

  // Someone looks: what is shown should be of now.
  wake() {
    if (!document.hidden && !this.over && !this.asking) this.next(0);
  }

  next(delay) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.once(), delay);
  }

  async once() {
    if (this.asking) return;
    this.asking = true;
    try {
      const status = await this.fetch();
      this.failures = 0;
      this.failingSince = null;
      this.answered = true;
      const again = this.take(status) === false;
      this.next(again ? 0 : this.afterAnswer(status));
    } catch (error) {
      this.failed(error);
    } finally {
      this.asking = false;
    }
    this.report();
  }

  async fetch() {
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), ANSWER_LIMIT_MS);
    try {
      const answer = await fetch(this.ask(), { cache: "no-store", signal: limit.signal });
      if (!answer.ok) throw new Error(`the answer was ${answer.status}`);
      const status = await answer.json();
      if (!status || !status.application) throw new Error("the answer was no status");
      return status;
    } finally {
      clearTimeout(timer);
    }
  }

  afterAnswer(status) {
    if (status.outcome) {
      this.asksAfterEnd += 1;
      if (this.asksAfterEnd >= ASKS_AFTER_END) this.over = true;
      return ENDED_MS;
    }
    return document.hidden ? HIDDEN_MS : EVERY_MS;
  }

  failed(error) {
    console.info(`status not to be had: ${error.message}`);
    this.failures += 1;
    this.failingSince ??= Date.now();
    // The ApplicationMaster goes away with its job: nothing is wrong.
    if (this.asksAfterEnd) this.over = true;
    const away = Date.now() - this.failingSince;
    const soon = FAILED_MS[Math.min(this.failures, FAILED_MS.length) - 1];
    const delay = away > LONG_AWAY_MS ? LONG_AWAY_EVERY_MS : soon;
    this.next(document.hidden ? Math.max(delay, HIDDEN_MS) : delay);
  }

  report() {
    if (this.over) clearTimeout(this.timer);
    this.tell({
      live: this.failingSince === null,
      since: this.failingSince,
      ended: this.asksAfterEnd > 0,
      over: this.over,
      answered: this.answered,
    });
  }
}
