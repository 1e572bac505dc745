/** Writing PromQL. */

import type { Labels } from "../api/types";

/** A string as a PromQL literal. */
export function quote(text: string): string {
  return JSON.stringify(text);
}

/** A pattern that matches exactly one of these texts, as a PromQL literal. */
export function oneOf(texts: readonly string[]): string {
  return quote(texts.map((text) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")).join("|"));
}

/** Matchers of a port as the topology names it: `mlx5_0/1` of a host, `swp1` or `Ethernet0` of a switch. */
export function portMatchers(node: string, port: string): string {
  const at = port.lastIndexOf("/");
  const host = `host=${quote(node)}`;
  // A switch may have a slash in its port names (Ethernet1/1): then there is no device.
  if (at < 0) return `${host},port=${quote(port)},device=""`;
  return `${host},device=${quote(port.slice(0, at))},port=${quote(port.slice(at + 1))}`;
}

/** The port of a series, as the topology names it. */
export function portOf(labels: Labels): string {
  const { device = "", port = "" } = labels;
  return device && port ? `${device}/${port}` : device || port;
}

/** A series as PromQL writes it. */
export function seriesName(labels: Labels): string {
  const { __name__: name = "", ...rest } = labels;
  const pairs = Object.entries(rest).map(([label, value]) => `${label}=${quote(value)}`);
  return pairs.length > 0 || !name ? `${name}{${pairs.join(", ")}}` : name;
}

/** The labels in which series differ, for short legends. */
export function distinctLabels(all: readonly Labels[]): string[] {
  const names = new Set(all.flatMap((labels) => Object.keys(labels)));
  return [...names].filter((name) => new Set(all.map((labels) => labels[name])).size > 1).sort(byImportance);
}

const FIRST = ["host", "device", "port", "priority", "direction"];

function byImportance(a: string, b: string): number {
  const rank = (name: string) => (FIRST.indexOf(name) + FIRST.length + 1) % (FIRST.length + 1);
  return rank(a) - rank(b) || a.localeCompare(b);
}
