/** The demo's storm: it appears by itself, leads to its culprit, and can be replayed. */

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Incident, IncidentList } from "../../src/api/types";
import { given, json, launch, Watched } from "./browser";

const origin = given("FABRICLENS_URL");
/** The story of the demo is told again after two minutes. */
const STORY = 150_000;
let browser: Browser;
let storm: Incident;

/** Waits for a storm that was detected after now. */
async function nextStorm(): Promise<Incident> {
  const now = Date.now() * 1e6;
  for (;;) {
    const { incidents } = await json<IncidentList>(origin, "/api/v1/incidents?kind=pfc_storm&state=open");
    const found = incidents.find(({ detected_ns, victim_jobs }) => detected_ns > now && victim_jobs.length > 0);
    if (found) return found;
    await new Promise((done) => setTimeout(done, 200));
  }
}

beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

test("a storm appears without a reload, soon after its verdict, and three clicks lead to what to do", async () => {
  const watched = await Watched.open(browser, origin);
  await watched.go("/");
  const card = watched.page.getByRole("listitem").filter({ hasText: "PFC storm" }).first();
  await card.waitFor({ state: "detached", timeout: STORY });
  storm = await nextStorm();
  await card.waitFor({ timeout: 3000 });
  expect(await card.textContent()).toContain("gpu-12 mlx5_2/1");
  await watched.check("overview in a storm");
  // The first click: the incident.
  await card.getByRole("link", { name: "PFC storm" }).click();
  const main = watched.page.locator("main");
  await main.getByRole("heading", { name: "PFC storm at gpu-12 mlx5_2/1" }).waitFor();
  await main.getByText("Drain the host and reset its NIC.").waitFor();
  await main.locator(".chain .box.culprit", { hasText: "gpu-12" }).waitFor();
  await main.locator(".chain .box.job", { hasText: "job 4713" }).waitFor();
  await main.locator(".plot canvas").first().waitFor();
  await main.getByRole("heading", { name: "Looked at and discarded" }).waitFor();
  await main.getByText("Loading…").first().waitFor({ state: "detached" });
  // Leaves pause others because of the storm; none of them is accused.
  await main.locator(".discarded li").filter({ hasText: "passes the pause on" }).first().waitFor();
  await watched.check("the incident");
  await main.getByRole("link", { name: "Runbook" }).click();
  await main.getByRole("heading", { name: "FabricPfcStorm" }).waitFor();
  await watched.check("the runbook");
  await watched.page.goBack();
  // The second: its victim. The third: back to the fabric at that time is in the next test.
  await main.locator("dl.facts").getByRole("link", { name: "4713" }).click();
  await main.getByRole("heading", { name: "Job 4713" }).waitFor();
  await main.getByText("What the network cost it").waitFor();
  await watched.check("the job");
  await watched.close();
}, STORY * 2);

test("an acknowledgment with a note is kept", async () => {
  const watched = await Watched.open(browser, origin);
  await watched.go(`/incidents/${storm.id}`);
  await watched.page.getByRole("button", { name: "Acknowledge" }).click();
  await watched.page.getByLabel("Your name").fill("ann");
  await watched.page.getByLabel("Note").fill("NIC ordered");
  await watched.check("the form");
  await watched.page.locator("form.action").getByRole("button", { name: "Acknowledge" }).click();
  await watched.page.getByText("NIC ordered").waitFor();
  const { incident } = await json<{ incident: Incident }>(origin, `/api/v1/incidents/${storm.id}?series=false`);
  expect(incident.acknowledged).toMatchObject({ by: "ann", note: "NIC ordered" });
  await watched.close();
});

test("two runs are compared, and the table of ports shows courses", async () => {
  const watched = await Watched.open(browser, origin);
  await watched.go("/compare?a=4713&b=4711");
  await watched.page.getByRole("heading", { name: "Rate of a port by rail" }).waitFor();
  await watched.page.getByRole("row", { name: /Rate of a host/ }).waitFor();
  await watched.check("two runs");
  await watched.go("/jobs/4713");
  await watched.page.getByRole("heading", { name: "Rails" }).waitFor();
  await watched.check("the report");
  await watched.go("/ports?node=gpu-12");
  await watched.page.locator("svg.spark path").first().waitFor();
  const courses = watched.requested.filter((path) => path.startsWith("/api/v1/query_range"));
  expect(courses.length, "one query for all rows").toBe(1);
  await watched.check("ports with courses");
  await watched.close();
});

test("scrubbing back shows the storm", async () => {
  const watched = await Watched.open(browser, origin);
  const during = Math.round(storm.start_ns / 1e9) + 8;
  await new Promise((done) => setTimeout(done, Math.max(0, (during + 3) * 1000 - Date.now())));
  await watched.go(`/fabric?signal=pause_sent&time=${during}`);
  await watched.page.locator("li.hot").filter({ hasText: "gpu-12 mlx5_2/1" }).waitFor();
  await watched.page.locator("section").filter({ hasText: "Incidents at this time" }).getByRole("link", { name: "PFC storm" }).first().waitFor();
  await watched.check("the fabric in the storm");
  const slider = watched.page.getByRole("slider", { name: "Time" });
  await slider.focus();
  await slider.press("ArrowLeft");
  await expect.poll(() => new URL(watched.page.url()).searchParams.get("time")).not.toBe(String(during));
  await watched.page.getByRole("button", { name: "Live" }).click();
  await expect.poll(() => new URL(watched.page.url()).searchParams.get("time")).toBeNull();
  await watched.close();
});

test.each(["/", "/incidents", "/jobs", "/fabric", "/ports", "/ports?node=gpu-12", "/ports/gpu-12/mlx5_2/1", "/audit", "/explore", "/status"])(
  "%s draws the demo, by day and by night",
  async (path) => {
    for (const dark of [false, true]) {
      const watched = await Watched.open(browser, origin, { dark });
      const began = Date.now();
      await watched.go(path);
      const paint = await watched.page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0);
      console.log(`${path}: first paint ${Math.round(paint)} ms, all read ${Date.now() - began} ms`);
      await watched.page.locator(".live.on").waitFor();
      await watched.check(`${path}${dark ? " (dark)" : ""}`);
      await watched.close();
    }
  },
);

test("completion suggests metrics and labels", async () => {
  const watched = await Watched.open(browser, origin);
  await watched.go("/explore");
  const field = watched.page.getByRole("textbox", { name: /PromQL/ });
  await field.pressSequentially("fabric_pfc_pause_sec");
  await watched.page.getByRole("option", { name: /^fabric_pfc_pause_seconds_total/ }).waitFor();
  await watched.check("suggestions");
  await field.press("Tab");
  await field.pressSequentially('{host="gpu-1');
  await watched.page.getByRole("option", { name: "gpu-12" }).waitFor();
  await field.press("Escape");
  await field.press("End");
  await field.pressSequentially('2"}');
  await field.press("Enter");
  await watched.page.getByRole("cell", { name: /gpu-12/ }).first().waitFor();
  await watched.page.locator(".plot canvas").waitFor();
  await watched.check("the answer");
  await watched.close();
});
