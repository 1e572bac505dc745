/** Series as uPlot takes them: one array of times, and one of values for each series. */

import type { MatrixSeries } from "../api/types";

export interface Line {
  readonly name: string;
  /** Unix s. */
  readonly times: readonly number[];
  readonly values: readonly (number | null)[];
}

export interface Aligned {
  readonly times: number[];
  readonly values: (number | null)[][];
}

/** Series of `query_range` as lines; histograms, which the server writes in another field, have none. */
export function lines(series: readonly MatrixSeries[], name: (labels: MatrixSeries["metric"]) => string): Line[] {
  return series.flatMap(({ metric, values }) => (values === undefined ? [] : [{ metric, values }])).map((one) => ({
    name: name(one.metric),
    times: one.values.map(([time]) => time),
    values: one.values.map(([, text]) => {
      const value = Number(text);
      return Number.isFinite(value) ? value : null;
    }),
  }));
}

/** Puts lines on one axis of time. Where a line has no value it has a gap: absent is not zero. */
export function align(all: readonly Line[]): Aligned {
  const times = [...new Set(all.flatMap((line) => line.times))].sort((a, b) => a - b);
  const at = new Map(times.map((time, index) => [time, index]));
  const values = all.map((line) => {
    const row = new Array<number | null>(times.length).fill(null);
    line.times.forEach((time, index) => {
      const to = at.get(time);
      if (to !== undefined) row[to] = line.values[index] ?? null;
    });
    return row;
  });
  return { times, values };
}

/** The lines that are not zero all the time; all of them if every one is. */
export function moving(all: readonly Line[]): readonly Line[] {
  const moved = all.filter((line) => line.values.some((value) => value !== null && value !== 0));
  return moved.length > 0 ? moved : all;
}

/** The lines with the highest values, at most `most`. */
export function highest(all: readonly Line[], most: number): Line[] {
  const peak = (line: Line) => line.values.reduce<number>((top, value) => Math.max(top, value ?? 0), 0);
  return [...all].sort((a, b) => peak(b) - peak(a)).slice(0, most);
}
