// Numbers, sizes and times for people. Times are in the viewer's zone; `utc` is for titles.

export const NONE = "–";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const timeOfDay = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const dayAndTime = new Intl.DateTimeFormat("en-GB", {
  day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit",
});
const hourAndMinute = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const dayAndHour = new Intl.DateTimeFormat("en-GB", {
  day: "numeric", month: "short", hour: "2-digit", minute: "2-digit",
});

export const known = (value) => value !== null && value !== undefined;

export const count = (value) => (known(value) ? whole.format(value) : NONE);

// 950, 12.3 k, 4.56 M: for axes and narrow cells.
export function short(value) {
  if (!known(value)) return NONE;
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (Math.abs(value) >= size) {
      return `${digits(value / (letter === "k" ? 1e3 : size), 3)} ${letter}`;
    }
  }
  return digits(value, 4);
}

export function digits(value, significant) {
  return String(Number(value.toPrecision(significant)));
}

export function metric(value) {
  if (!known(value)) return "not finite";
  if (value !== 0 && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e6)) {
    return value.toExponential(3);
  }
  return digits(value, 5);
}

export function bytes(value) {
  if (!known(value)) return NONE;
  for (const [power, unit] of [[40, "TiB"], [30, "GiB"], [20, "MiB"], [10, "KiB"]]) {
    if (value >= 2 ** power) return `${digits(value / 2 ** power, value >= 1000 * 2 ** power ? 4 : 3)} ${unit}`;
  }
  return `${value} B`;
}

export function duration(seconds) {
  if (!known(seconds)) return NONE;
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return s % 60 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${s / 60} min`;
  const [hours, minutes] = [Math.floor(s / 3600), Math.floor((s % 3600) / 60)];
  if (hours < 48) return minutes ? `${hours} h ${minutes} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

const date = (seconds) => new Date(seconds * 1000);
const sameDay = (seconds) => date(seconds).toDateString() === new Date().toDateString();

export function time(seconds) {
  if (!seconds) return NONE;
  return (sameDay(seconds) ? timeOfDay : dayAndTime).format(date(seconds));
}

// For axes, whose labels must not be wider than what they tell.
export function tickTime(seconds, step) {
  if (step >= 6 * 3600) return dayAndHour.format(date(seconds));
  return (step >= 60 ? hourAndMinute : timeOfDay).format(date(seconds));
}

export function utc(seconds) {
  if (!seconds) return "";
  return date(seconds).toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");
}

// Round values between low and high, about `wanted` of them.
export function ticks(low, high, wanted) {
  const span = high - low || Math.abs(high) || 1;
  const rough = span / Math.max(1, wanted);
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((factor) => factor * unit >= rough * 0.999);
  const out = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n += 1) {
    out.push(Number((n * step).toPrecision(12)));
  }
  return out;
}

const TIME_STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
  172800, 604800,
];

export function timeTicks(low, high, wanted) {
  const step = TIME_STEPS.find((s) => (high - low) / s <= wanted) ?? TIME_STEPS.at(-1);
  const zone = date(low).getTimezoneOffset() * 60;
  const out = [];
  for (let at = Math.ceil((low - zone) / step) * step + zone; at <= high; at += step) out.push(at);
  return { step, at: out };
}
