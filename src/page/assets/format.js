// Numbers as people read them. Pure.

const whole = new Intl.NumberFormat("en");

export function count(value) {
  return value === null || value === undefined ? "–" : whole.format(Math.round(value));
}

/** 0.42, 4.2, 42: as many digits as say something. */
export function rate(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  if (value < 1) return value.toFixed(2);
  return value < 10 ? value.toFixed(1) : count(value);
}

export function milliseconds(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0 ms";
  if (value < 1) return `${value.toFixed(2)} ms`;
  if (value < 10) return `${value.toFixed(1)} ms`;
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 60000) return `${(value / 1000).toFixed(value < 10000 ? 2 : 1)} s`;
  const seconds = Math.round(value / 1000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** Beside an axis, where digits that are all 0 say nothing: 250 ms, 1.5 s, 2 s. */
export function roundMilliseconds(value) {
  return value < 1000 ? `${Number(value.toFixed(2))} ms` : `${Number((value / 1000).toFixed(2))} s`;
}

export function bytes(value) {
  if (!value) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    ++unit;
  }
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function percent(share) {
  if (share === null || share === undefined) return "–";
  // Little is not nothing.
  const isLittle = share > 0 && share < 0.01;
  return `${isLittle ? Math.max(share * 100, 0.1).toFixed(1) : Math.round(share * 100)} %`;
}

/** Of Unix seconds, in the reader's time: 14:03:59. */
export function clock(seconds) {
  const at = new Date(seconds * 1000);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

/** The same for a long stretch, where seconds say nothing: 14:03. */
export function hourAndMinute(seconds) {
  return clock(seconds).slice(0, 5);
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}
