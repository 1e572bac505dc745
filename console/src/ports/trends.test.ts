import { expect, test } from "vitest";
import { MOST_PORTS, portKey, sparkPath, TRENDS, trendQuery, trends } from "./trends";

const SENT = TRENDS[0];
if (!SENT) throw new Error("no counter");

test("one query asks for all ports in view, of hosts and of switches", () => {
  expect(trendQuery(SENT, [{ node: "leaf1", port: "swp7" }])).toBe(
    'sum by (host, device, port) (rate(fabric_port_io_bytes_total{host="leaf1",device="",port="swp7",direction="transmit"}[45s]))',
  );
  const both = trendQuery(SENT, [
    { node: "gpu-1", port: "mlx5_0/1" },
    { node: "leaf.1", port: "swp7" },
  ]);
  expect(both).toContain('host=~"gpu-1|leaf\\\\.1",device=~"|mlx5_0",port=~"1|mlx5_0/1|swp7"');
  expect(trendQuery(SENT, [{ node: "leaf2", port: "Ethernet1/1" }]), "a switch may have a slash in its ports").toContain(
    'device=~"|Ethernet1",port=~"1|Ethernet1/1"',
  );
});

test("a query has at most as many ports as a screen", () => {
  const many = Array.from({ length: 500 }, (_, n) => ({ node: `h${n}`, port: "p/1" }));
  expect(trendQuery(SENT, many).match(/h\d+/g)).toHaveLength(MOST_PORTS);
});

test("courses have a point for each step, and none where there is no sample", () => {
  const found = trends(
    [
      { metric: { host: "h", device: "d", port: "1" }, values: [[1000, "5"], [1060, "7"], [1090, "NaN"]] },
      { metric: { host: "s", port: "swp1" }, values: [] },
    ],
    1000,
  );
  expect(found.get(portKey("h", "d/1"))?.slice(0, 4)).toEqual([5, null, 7, null]);
  expect(found.get(portKey("s", "swp1"))?.every((value) => value === null)).toBe(true);
});

test("a path has gaps where the course has them", () => {
  expect(sparkPath([0, 1, null, 0.5], 1, 90, 20)).toBe("M0.0 19.0L30.0 1.0M90.0 10.0h1");
  expect(sparkPath([null, null], 1, 90, 20)).toBe("");
  expect(sparkPath([0, 0], 0, 10, 20)).toBe("M0.0 19.0L10.0 19.0");
});
