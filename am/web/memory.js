// What the page has seen so far. It outlives the ApplicationMaster's process: after a restart the
// curves and events that only the page still has are kept, and what is new is put behind them.

const EVENTS_KEPT = 5000;
const RATE_KEPT = 1200;

export class Memory {
  constructor() {
    this.status = null;
    this.events = []; // oldest first
    this.rate = [];
    this.firstEventMissing = false;
    this.forget();
  }

  forget() {
    this.lastSeq = 0;
    this.attempt = null;
  }

  // Takes a status document; false when it belongs to a newer attempt, whose events count from 1
  // again: ask again with `lastSeq`.
  take(status) {
    if (this.attempt !== null && status.attempt !== this.attempt && this.lastSeq > 0) {
      this.lastSeq = 0;
      this.attempt = status.attempt;
      return false;
    }
    if (this.attempt === null && status.events.length) {
      this.firstEventMissing = status.events[0].seq > 1;
    }
    this.attempt = status.attempt;
    for (const event of status.events) {
      if (event.seq <= this.lastSeq) continue;
      this.lastSeq = event.seq;
      this.events.push(event);
    }
    if (this.events.length > EVENTS_KEPT) {
      this.events = this.events.slice(-EVENTS_KEPT);
      this.firstEventMissing = true;
    }
    this.rate = joined(this.rate, status.rate);
    this.status = status;
    return true;
  }
}

// The older points that the new curve does not reach back to, then the new curve.
function joined(old, fresh) {
  if (!fresh.length) return old;
  const before = old.filter((point) => point.time < fresh[0].time);
  const all = before.concat(fresh);
  return all.length > RATE_KEPT ? all.filter((_, i) => i % 2 || i === all.length - 1) : all;
}
