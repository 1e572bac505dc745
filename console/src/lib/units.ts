/** Units of metrics, by their names (Prometheus' conventions): of gauges, and of counters as rates. */

const ENDS: readonly (readonly [end: string, unit: string])[] = [
  ["_seconds_total", "1"],
  ["_bytes_total", "By/s"],
  ["_bytes_per_second", "By/s"],
  ["_total", "1/s"],
  ["_ratio", "1"],
  ["_bytes", "By"],
  ["_seconds", "s"],
  ["_celsius", "°C"],
  ["_watts", "W"],
];

/** Unit of a metric; a counter has that of its rate. */
export function metricUnit(metric: string): string {
  return ENDS.find(([end]) => metric.endsWith(end))?.[1] ?? "";
}
