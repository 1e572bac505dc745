import { afterEach, expect, test, vi } from "vitest";
import * as client from "./client";
import { readAudit, reasonText, type Audit } from "./audit";

afterEach(() => void vi.restoreAllMocks());

function page(host: string, next: number | null): Audit {
  const drift = { host, port: "mlx5_0/1", rail: "0", key: "trust", title: "trust", value: "pcp", expected: "dscp", consequence: "" };
  const drifts = [{ ...drift, severity: "critical" as const, reason: { type: "host" as const } }];
  return { time_ms: 1, compared: 9, chosen: 9, drifts, next, splits: [], files: [], error: null };
}

test("pages of drifts are read up to a bound", async () => {
  const asked: unknown[] = [];
  vi.spyOn(client, "getData").mockImplementation((_, params) => {
    asked.push(params);
    return Promise.resolve(page(`h${asked.length}`, asked.length));
  });
  const audit = await readAudit(new AbortController().signal);
  expect(audit.drifts.map(({ host }) => host)).toEqual(["h1", "h2", "h3", "h4"]);
  expect(asked).toEqual([{}, { offset: 1 }, { offset: 2 }, { offset: 3 }]);
});

test("reasons are words", () => {
  expect(reasonText({ type: "majority", group: "rail 2", agree: 63, of: 64 })).toBe("63 of 64 of rail 2");
  expect(reasonText({ type: "far_end", node: "leaf1", port: "swp4" })).toBe("leaf1 swp4, the other end");
});
