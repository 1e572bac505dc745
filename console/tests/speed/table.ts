/** Pages and interactions that are measured: each is a row. The names are those of the simulated fleet of `cargo xtask bench console`. */

import type { Page } from "playwright-core";

export const PAGES: readonly { name: string; path: string; isRefreshed?: true }[] = [
  { name: "overview", path: "/", isRefreshed: true },
  { name: "incidents", path: "/incidents" },
  { name: "jobs", path: "/jobs" },
  { name: "job", path: "/jobs/7" },
  { name: "fabric", path: "/fabric", isRefreshed: true },
  { name: "ports", path: "/ports", isRefreshed: true },
  { name: "port", path: "/ports/node0042/mlx5_3/1" },
  { name: "audit", path: "/audit" },
  { name: "explore", path: "/explore?q=sum%20by%20(device)%20(rate(fabric_port_io_bytes_total%5B1m%5D))" },
  { name: "status", path: "/status", isRefreshed: true },
  { name: "runbook", path: "/docs/runbooks/pfc-storm.md" },
];

export const INTERACTIONS: readonly { name: string; path: string; act: (page: Page, round: number) => Promise<void> }[] = [
  {
    name: "ports: a letter of the filter",
    path: "/ports",
    act: (page, round) => page.getByLabel("Host, switch or port").press("node1"[round] ?? "0"),
  },
  { name: "ports: sort by a column", path: "/ports", act: (page) => page.getByRole("button", { name: "Host or switch" }).click() },
  {
    name: "ports: scroll by keys",
    path: "/ports",
    act: async (page) => {
      await page.getByRole("region", { name: "Ports" }).press("PageDown");
    },
  },
  {
    name: "fabric: another signal",
    path: "/fabric",
    act: async (page, round) => {
      await page.getByLabel("Color by").press(round % 2 === 0 ? "ArrowDown" : "ArrowUp");
    },
  },
  {
    name: "fabric: a step of the time bar",
    path: "/fabric",
    act: (page) => page.getByRole("slider", { name: "Time" }).press("ArrowLeft"),
  },
  { name: "fabric: zoom", path: "/fabric", act: (page) => page.getByRole("button", { name: "Zoom in" }).click() },
  {
    name: "overview to ports and back",
    path: "/",
    act: async (page) => {
      await page.getByRole("navigation").getByRole("link", { name: "Ports" }).click();
      await page.waitForTimeout(1500);
      await page.getByRole("navigation").getByRole("link", { name: "Overview" }).click();
    },
  },
];
