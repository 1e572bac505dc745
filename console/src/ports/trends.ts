/** The course of one counter for the ports in view: one query for all of them. */

import type { MatrixSeries } from "../api/types";
import { oneOf, portOf, quote } from "../lib/promql";

/** A counter whose course the table of ports shows. */
export interface TrendCounter {
  readonly name: string;
  readonly words: string;
  readonly unit: string;
  /** Series of a port become one. */
  readonly join: "sum" | "max";
  readonly metric: string;
  /** Further matchers. */
  readonly matchers: string;
}

const SENT = 'direction="transmit"';
const RECEIVED = 'direction="receive"';

export const TRENDS: readonly TrendCounter[] = [
  { name: "sent", words: "Sent", unit: "By/s", join: "sum", metric: "fabric_port_io_bytes_total", matchers: SENT },
  { name: "received", words: "Received", unit: "By/s", join: "sum", metric: "fabric_port_io_bytes_total", matchers: RECEIVED },
  { name: "pause_sent", words: "Pause sent", unit: "1", join: "max", metric: "fabric_pfc_pause_seconds_total", matchers: SENT },
  { name: "pause_received", words: "Pause received", unit: "1", join: "max", metric: "fabric_pfc_pause_seconds_total", matchers: RECEIVED },
  { name: "xmit_wait", words: "Waits for credits", unit: "By/s", join: "sum", metric: "fabric_port_xmit_wait_bytes_total", matchers: "" },
  { name: "marks", words: "ECN marks", unit: "1/s", join: "sum", metric: "fabric_ecn_marks_total", matchers: "" },
  { name: "cnp", words: "Congestion notifications", unit: "1/s", join: "sum", metric: "fabric_cnp_packets_total", matchers: SENT },
  { name: "discards", words: "Discards", unit: "1/s", join: "sum", metric: "fabric_port_discards_total", matchers: "" },
];

/** Time that a course covers, s, and seconds between two points of it. */
export const COVERS = 900;
export const STEP = 30;
/** Most ports of a query: those that a screen shows. */
export const MOST_PORTS = 80;

/** A port, as the table names it. */
export interface PortName {
  readonly node: string;
  readonly port: string;
}

/** Name of a port in maps. */
export const portKey = (node: string, port: string) => `${node}\n${port}`;

/** The query for some ports. Its matchers are by node, device and port apart, so it may find more ports of the same nodes. */
export function trendQuery(counter: TrendCounter, ports: readonly PortName[]): string {
  const shown = ports.slice(0, MOST_PORTS);
  // `mlx5_0/1` is a port of a device; `Ethernet1/1` may be the name of a switch's port.
  const parts = shown.flatMap(({ port }) => {
    const at = port.lastIndexOf("/");
    const whole = { device: "", port };
    return at < 0 ? [whole] : [{ device: port.slice(0, at), port: port.slice(at + 1) }, whole];
  });
  const match = (label: string, values: readonly string[]) => {
    const distinct = [...new Set(values)].sort();
    return distinct.length === 1 ? `${label}=${quote(distinct[0] ?? "")}` : `${label}=~${oneOf(distinct)}`;
  };
  const matchers = [
    match("host", shown.map(({ node }) => node)),
    match("device", parts.map(({ device }) => device)),
    match("port", parts.map(({ port }) => port)),
    counter.matchers,
  ].filter(Boolean);
  // As long as agents that send each ten seconds need for four samples.
  return `${counter.join} by (host, device, port) (rate(${counter.metric}{${matchers.join(",")}}[45s]))`;
}

/** Courses by port, as points at equal steps from `start`; null where there is none. */
export function trends(series: readonly MatrixSeries[], start: number): Map<string, (number | null)[]> {
  const found = new Map<string, (number | null)[]>();
  for (const { metric, values } of series) {
    const points = new Array<number | null>(COVERS / STEP + 1).fill(null);
    for (const [time, text] of values ?? []) {
      const at = Math.round((time - start) / STEP);
      const value = Number(text);
      if (at >= 0 && at < points.length && Number.isFinite(value)) points[at] = value;
    }
    found.set(portKey(metric["host"] ?? "", portOf(metric)), points);
  }
  return found;
}

/** A course as the path of an SVG of this size, scaled to `top`; gaps stay gaps. */
export function sparkPath(points: readonly (number | null)[], top: number, width: number, height: number): string {
  const x = (at: number) => ((at / Math.max(1, points.length - 1)) * width).toFixed(1);
  const y = (value: number) => (height - 1 - (top > 0 ? Math.min(1, value / top) : 0) * (height - 2)).toFixed(1);
  let path = "";
  let isDown = false;
  points.forEach((value, at) => {
    if (value === null) isDown = false;
    else {
      // A point without neighbors is drawn as a short stroke.
      const isAlone = !isDown && (points[at + 1] ?? null) === null;
      path += `${isDown ? "L" : "M"}${x(at)} ${y(value)}${isAlone ? "h1" : ""}`;
      isDown = true;
    }
  });
  return path;
}
