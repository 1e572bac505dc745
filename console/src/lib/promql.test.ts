import { expect, test } from "vitest";
import { distinctLabels, portMatchers, portOf, quote, seriesName } from "./promql";

test("ports of hosts and of switches are matched by their labels", () => {
  expect(portMatchers("gpu-01", "mlx5_0/1")).toBe('host="gpu-01",device="mlx5_0",port="1"');
  expect(portMatchers("leaf-1", "swp7")).toBe('host="leaf-1",port="swp7",device=""');
  expect(portOf({ device: "mlx5_0", port: "1" })).toBe("mlx5_0/1");
  expect(portOf({ port: "swp7" })).toBe("swp7");
});

test("text of senders cannot leave its literal", () => {
  expect(quote('a"b\\c\n')).toBe('"a\\"b\\\\c\\n"');
  expect(seriesName({ __name__: "up", host: 'x"} or vector(1) or up{y="' })).toBe('up{host="x\\"} or vector(1) or up{y=\\""}');
});

test("legends have only the labels that differ, the port's first", () => {
  const all = [
    { __name__: "x", host: "a", priority: "3", direction: "transmit" },
    { __name__: "x", host: "b", priority: "3", direction: "receive" },
  ];
  expect(distinctLabels(all)).toEqual(["host", "direction"]);
});
