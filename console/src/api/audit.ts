/** The answer of `/api/v1/audit` (docs/audit.md). */

import { getData } from "./client";
import type { Severity } from "./types";

/** A setting that is not as expected. */
export interface Drift {
  readonly host: string;
  /** Port (`mlx5_0/1`) or device (`mlx5_0`). */
  readonly port: string;
  readonly rail: string;
  readonly key: string;
  readonly title: string;
  readonly severity: Severity;
  readonly value: string;
  readonly expected: string;
  readonly reason: Reason;
  readonly consequence: string;
  readonly changed?: { readonly since_ms: number; readonly before: string };
}

export type Reason =
  | { readonly type: "baseline"; readonly name: string }
  | { readonly type: "far_end"; readonly node: string; readonly port: string }
  | { readonly type: "majority"; readonly group: string; readonly agree: number; readonly of: number }
  | { readonly type: "host" };

/** A group of ports without a majority. */
export interface Split {
  readonly group: string;
  readonly key: string;
  readonly title: string;
  readonly values: readonly { readonly value: string; readonly members: number; readonly example: string }[];
}

export interface Audit {
  /** Time of the audit, Unix ms; 0 before the first one. */
  readonly time_ms: number;
  /** Ports and devices that were compared. */
  readonly compared: number;
  /** All drifts that match, of which an answer has a page. */
  readonly chosen: number;
  readonly drifts: readonly Drift[];
  readonly next: number | null;
  readonly splits: readonly Split[];
  readonly files: readonly { readonly path: string; readonly baselines: number; readonly error: string | null }[];
  readonly error: string | null;
}

/** Pages that are read at most; a fleet with more drifts has one cause. */
const PAGES = 4;

/** Reads the last audit with its worst drifts. */
export async function readAudit(signal: AbortSignal): Promise<Audit> {
  const first = await getData<Audit>("/api/v1/audit", {}, signal);
  const drifts = [...first.drifts];
  for (let next = first.next, page = 1; next !== null && page < PAGES; page += 1) {
    const more: Audit = await getData<Audit>("/api/v1/audit", { offset: next }, signal);
    drifts.push(...more.drifts);
    next = more.next;
  }
  return { ...first, drifts };
}

/** Why a value is expected. */
export function reasonText(reason: Reason): string {
  switch (reason.type) {
    case "baseline":
      return `baseline ${reason.name}`;
    case "far_end":
      return `${reason.node} ${reason.port}, the other end`;
    case "majority":
      return `${reason.agree} of ${reason.of} of ${reason.group}`;
    case "host":
      return "other settings of the host";
  }
}
