/** Colors of a signal's values, from calm to hot. */

import type { PortSignals } from "../api/types";
import type { Signal } from "./signals";

/** Values of one signal by port. */
export class Heat {
  private readonly values = new Map<string, number>();
  /** Value of the strongest color. */
  readonly full: number;
  readonly unit: string;

  constructor(of: PortSignals, signal: Signal) {
    const column = of.signals.find(({ name }) => name === signal.name);
    this.unit = column?.unit ?? "";
    of.ports.forEach(([node, port], at) => {
      const value = column?.values[at];
      if (value !== null && value !== undefined) this.values.set(`${node}\n${port}`, value);
    });
    this.full = signal.full ?? Math.max(1e-9, ...this.values.values());
  }

  /** Value of a port; undefined if it has none: absent is not zero. */
  at(node: string, port: string): number | undefined {
    return this.values.get(`${node}\n${port}`);
  }

  /** Share of the strongest color: 0 to 1. */
  share(value: number | undefined): number {
    return value === undefined ? 0 : Math.max(0, Math.min(1, value / this.full));
  }

  /** Ports with a value above zero, the highest first. */
  highest(most: number): { node: string; port: string; value: number }[] {
    const all = [...this.values].filter(([, value]) => value > 0).sort(([, a], [, b]) => b - a);
    return all.slice(0, most).map(([key, value]) => {
      const [node = "", port = ""] = key.split("\n");
      return { node, port, value };
    });
  }
}

/** Stops of the scale: calm, warm, hot; each differs in lightness too, so that it is told apart without its hue. */
const STOPS: readonly (readonly [at: number, rgb: readonly [number, number, number]])[] = [
  [0, [120, 140, 160]],
  [0.15, [86, 160, 211]],
  [0.5, [245, 176, 65]],
  [0.8, [231, 76, 60]],
  [1, [165, 20, 80]],
];

/** Steps of the scale; values between them have the color of the next one. */
export const STEPS = 32;

/** Step of a share, 0 to 1. */
export function heatStep(share: number): number {
  return Math.round(Math.max(0, Math.min(1, share)) * (STEPS - 1));
}

/** Color of a share, 0 to 1. */
export function heatColor(share: number): string {
  return SCALE[heatStep(share)] ?? "gray";
}

function mix(share: number): string {
  let [low, high] = [STOPS[0], STOPS[STOPS.length - 1]];
  for (const [n, stop] of STOPS.entries()) {
    const next = STOPS[n + 1];
    if (next && share >= stop[0] && share <= next[0]) [low, high] = [stop, next];
  }
  if (!low || !high) return "gray";
  const part = (share - low[0]) / (high[0] - low[0] || 1);
  const mixed = low[1].map((from, channel) => Math.round(from + ((high[1][channel] ?? from) - from) * part));
  return `rgb(${mixed.join(" ")})`;
}

const SCALE: readonly string[] = Array.from({ length: STEPS }, (_, step) => mix(step / (STEPS - 1)));

/** Color of a step. */
export function stepColor(step: number): string {
  return SCALE[step] ?? "gray";
}
