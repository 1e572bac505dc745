/** Figures of a report as numbers and words. */

import type { Figure } from "../api/types";
import { duration, inUnit } from "../lib/format";

/** A figure as one number: the sum over how certain its parts are; undefined if nothing was measured. */
export function total(figure: Figure): number | undefined {
  if (figure.parts.length === 0) return undefined;
  if (figure.unit !== "1") return figure.parts.reduce((sum, part) => sum + part.value, 0);
  const weight = figure.parts.reduce((sum, part) => sum + part.of, 0);
  return weight > 0 ? figure.parts.reduce((sum, part) => sum + part.value * part.of, 0) / weight : undefined;
}

/** A figure in its unit; parts that other jobs share are marked. */
export function figureText(figure: Figure): string {
  const value = total(figure);
  if (value === undefined) return "not measured";
  const isShared = figure.parts.some(({ grade }) => grade === "shared");
  return `${inUnit(value, figure.unit === "{count}" ? "" : figure.unit)}${isShared ? ", shared with other jobs" : ""}`;
}

/** Bounds of lost time as words. */
export function lostText(least: Figure, most: Figure): string {
  const [low, high] = [total(least), total(most)];
  if (high === undefined) return "not known";
  if (low === undefined) return `at most ${duration(high)}`;
  return low === high ? duration(high) : `${duration(low)} to ${duration(high)}`;
}
