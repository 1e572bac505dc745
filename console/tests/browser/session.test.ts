/** Signing in where tokens are on. */

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { IncidentList } from "../../src/api/types";
import { given, launch, Watched } from "./browser";

const origin = given("FABRICLENS_TOKENS_URL");
let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

test("a token with the role read opens the pages, in this tab only", async () => {
  const watched = await Watched.open(browser, origin);
  await watched.go("/status");
  await watched.page.getByRole("heading", { name: "Sign in" }).waitFor();
  await watched.check("sign in");
  const data = watched.requested.filter((path) => path.startsWith("/api/") && path !== "/api/v1/session");
  expect(data, "nothing is asked for before").toEqual([]);

  await watched.page.getByLabel("Token").fill("flt_wrong");
  await watched.page.getByRole("button", { name: "Sign in" }).click();
  await watched.page.getByText("The collector does not know this token").waitFor();

  await watched.page.getByLabel("Token").fill(given("FABRICLENS_TOKEN_INGEST"));
  await watched.page.getByRole("button", { name: "Sign in" }).click();
  await watched.page.getByText("is known, but lacks the role read").waitFor();

  await watched.page.getByLabel("Token").fill(given("FABRICLENS_TOKEN_READ"));
  await watched.page.getByRole("button", { name: "Sign in" }).click();
  await watched.page.getByRole("heading", { name: "Hosts" }).waitFor();
  await watched.page.locator(".live.on").waitFor();
  await watched.check("signed in");

  await watched.page.reload();
  await watched.page.getByRole("heading", { name: "Hosts" }).waitFor();
  const other = await Watched.open(browser, origin);
  await other.go("/");
  await other.page.getByRole("heading", { name: "Sign in" }).waitFor();

  await watched.page.getByRole("button", { name: /Sign out/ }).click();
  await watched.page.getByRole("heading", { name: "Sign in" }).waitFor();
  await Promise.all([watched.close(), other.close()]);
});

/** A request with a token. */
function ask(path: string, token: string, init: RequestInit = {}): Promise<Response> {
  return fetch(origin.replace(/\/$/, "") + path, { ...init, headers: { ...init.headers, authorization: `Bearer ${token}` } });
}

/** Sends samples of a NIC that pauses its switch all the time, each second, until the collector has an incident. */
async function storm(): Promise<string> {
  const port = { host: "gpu-01", device: "mlx5_0", port: "1" };
  const labels = [
    { __name__: "fabric_pfc_pause_seconds_total", direction: "transmit", priority: "3" },
    { __name__: "fabric_port_io_bytes_total", direction: "transmit" },
    { __name__: "fabric_port_io_bytes_total", direction: "receive" },
  ];
  for (let second = 0; second < 90; second += 1) {
    const now = Date.now();
    const lines = labels.map((own, n) =>
      JSON.stringify({ metric: { ...own, ...port }, values: [n === 0 ? second : second * 1e6], timestamps: [now] }),
    );
    const sent = await ask("/api/v1/import", given("FABRICLENS_TOKEN_INGEST"), { method: "POST", body: lines.join("\n") });
    expect(sent.ok, await sent.text()).toBe(true);
    const listed = await ask("/api/v1/incidents?node=gpu-01", given("FABRICLENS_TOKEN_READ"));
    const { incidents } = (await listed.json()) as IncidentList;
    if (incidents[0]) return incidents[0].id;
    await new Promise((done) => setTimeout(done, 1000));
  }
  throw new Error("no incident");
}

/** Opens a page of the collector with a token. */
async function signedIn(token: string, path: string): Promise<Watched> {
  const watched = await Watched.open(browser, origin);
  await watched.go("/");
  await watched.page.getByLabel("Token").fill(token);
  await watched.page.getByRole("button", { name: "Sign in" }).click();
  await watched.page.locator(".live.on").waitFor();
  await watched.go(path);
  return watched;
}

test("actions are offered to those who may, and refused to others", async () => {
  const id = await storm();
  const actions = ["Acknowledge", "Add note", "Silence", "Reclassify"];
  const reader = await signedIn(given("FABRICLENS_TOKEN_READ"), `/incidents/${id}`);
  await reader.page.getByText("need the role write").waitFor();
  for (const name of actions) expect(await reader.page.getByRole("button", { name }).count(), name).toBe(0);
  await reader.check("an incident for a reader");
  for (const action of ["acknowledge", "note", "silence", "reclassify"]) {
    const body = JSON.stringify({ by: "eve", note: "x" });
    const answer = await ask(`/api/v1/incidents/${id}/${action}`, given("FABRICLENS_TOKEN_READ"), { method: "POST", body });
    expect(answer.status, action).toBe(403);
  }

  const operator = await signedIn(given("FABRICLENS_TOKEN_OPERATOR"), `/incidents/${id}`);
  for (const name of actions) await operator.page.getByRole("button", { name }).waitFor();
  await operator.page.getByRole("button", { name: "Add note" }).click();
  await operator.page.getByLabel("Your name").fill("ann");
  await operator.page.getByLabel("Note").fill("firmware is old");
  await operator.page.locator("form.action").getByRole("button", { name: "Add note" }).click();
  await operator.page.locator(".history").getByText("by ann: firmware is old").waitFor();
  await operator.check("a note");
  // The reader sees it without a reload.
  await reader.page.locator(".history").getByText("by ann: firmware is old").waitFor({ timeout: 5000 });
  await Promise.all([reader.close(), operator.close()]);
}, 150_000);
