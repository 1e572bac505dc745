/** Numbers, times and durations as people read them. */

const PREFIXES = ["", "k", "M", "G", "T", "P"] as const;

/** Three digits with an SI prefix: `1.23 M`. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return "–";
  let at = 0;
  let size = value;
  while (Math.abs(size) >= 999.5 && at < PREFIXES.length - 1) {
    size /= 1000;
    at += 1;
  }
  const text = digits(size);
  return at === 0 ? text : `${text} ${PREFIXES[at]}`;
}

function digits(value: number): string {
  const size = Math.abs(value);
  if (size >= 99.95 || Number.isInteger(value)) return value.toFixed(0);
  if (size >= 9.995) return value.toFixed(1);
  if (size >= 0.01) return value.toFixed(2);
  return size === 0 ? "0" : value.toPrecision(2);
}

/** Bytes per second as bits per second: `392 Gb/s`. */
export function bitRate(bytesPerSecond: number): string {
  const text = short(bytesPerSecond * 8);
  return `${text}${text.includes(" ") ? "" : " "}b/s`;
}

/** A share as a percentage: `12 %`. */
export function percent(share: number): string {
  if (!Number.isFinite(share)) return "–";
  const value = share * 100;
  return `${Math.abs(value) >= 9.95 || value === 0 ? value.toFixed(0) : digits(value)} %`;
}

/** A value in the unit of a metric or signal. */
export function inUnit(value: number, unit: string): string {
  switch (unit) {
    case "1":
      return percent(value);
    case "By/s":
      return bitRate(value);
    case "By": {
      const text = short(value);
      return `${text}${text.includes(" ") ? "" : " "}B`;
    }
    case "s":
      return duration(value);
    case "":
      return short(value);
    default: {
      const text = short(value);
      return unit.startsWith("1/") ? `${text}${unit.slice(1)}` : `${text} ${unit.replace(/[{}]/g, "")}`;
    }
  }
}

/** Seconds as a duration: `850 ms`, `12 s`, `3 min 20 s`, `2 h 5 min`, `4 d 3 h`. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  const s = Math.round(seconds);
  const pair = (big: number, bigUnit: string, small: number, smallUnit: string) =>
    small > 0 ? `${big} ${bigUnit} ${small} ${smallUnit}` : `${big} ${bigUnit}`;
  if (s < 60) return `${s} s`;
  if (s < 3600) return pair(Math.floor(s / 60), "min", s % 60, "s");
  if (s < 86_400) return pair(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min");
  return pair(Math.floor(s / 86_400), "d", Math.floor((s % 86_400) / 3600), "h");
}

const sameDay = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const otherDay = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  hour12: false,
});

/** A time of day, with the date if it is another day than today. */
export function clock(ms: number, now = Date.now()): string {
  const at = new Date(ms);
  return (at.toDateString() === new Date(now).toDateString() ? sameDay : otherDay).format(at);
}

/** Nanoseconds since 1970 as milliseconds. */
export function nsToMs(ns: number): number {
  return ns / 1e6;
}

/** `pfc_storm` as words: `PFC storm`. */
export function kindWords(kind: string): string {
  const words = kind.split("_").join(" ");
  const upper = words.replace(/\b(pfc|ecn|ecmp|tcp|pcie)\b/g, (word) => (word === "pcie" ? "PCIe" : word.toUpperCase()));
  return upper.charAt(0).toUpperCase() + upper.slice(1);
}
