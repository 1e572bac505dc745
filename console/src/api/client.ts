/** Requests to the collector's HTTP API. */

import { token } from "../session";
import type { Envelope, QueryData } from "./types";

/** An answer that is no success; the message is the collector's, which names the remedy. */
export class ApiError extends Error {
  constructor(
    message: string,
    /** HTTP status; 0 if the collector did not answer. */
    readonly status: number,
  ) {
    super(message);
  }
}

export type Params = Readonly<Record<string, string | number | undefined>>;

/** URL of a route of the API. Browsers refuse to fetch from a URL that has a password in it, as the page's own may have. */
export function apiUrl(path: string, params: Params = {}): URL {
  const url = new URL(path.replace(/^\//, ""), document.baseURI);
  url.username = url.password = "";
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== "") url.searchParams.set(name, String(value));
  }
  return url;
}

/** Headers of every request. */
export function authorization(): Record<string, string> {
  const given = token();
  return given ? { authorization: `Bearer ${given}` } : {};
}

async function send(url: URL, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, { ...init, headers: { ...authorization(), ...init.headers } });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError("The collector does not answer. Is it running, and can this browser reach it?", 0);
  }
  if (response.ok) return response;
  const text = await response.text();
  throw new ApiError(errorOf(text) ?? `The collector answered ${response.status}: ${text.slice(0, 300)}`, response.status);
}

function errorOf(text: string): string | undefined {
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body === "object" && body !== null && "error" in body) return String(body.error);
  } catch {
    // Not JSON: the text itself is shown.
  }
  return undefined;
}

/** Reads a JSON answer whose shape is `T` (`types.ts`). */
export async function getJson<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<T> {
  const response = await send(apiUrl(path, params), signal ? { signal } : {});
  return (await response.json()) as T;
}

/** Reads the `data` of an answer in the envelope of the Prometheus API. */
export async function getData<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<T> {
  return (await getJson<Envelope<T>>(path, params, signal)).data;
}

/** Reads a text. */
export async function getText(path: string, params: Params = {}, signal?: AbortSignal): Promise<string> {
  return (await send(apiUrl(path, params), signal ? { signal } : {})).text();
}

/** Sends a JSON body. */
export async function postJson<T>(path: string, body: object): Promise<T> {
  const headers = { "content-type": "application/json" };
  const response = await send(apiUrl(path), { method: "POST", body: JSON.stringify(body), headers });
  return (await response.json()) as T;
}

/** A PromQL query; with `start`, `end` and `step` over a range. Sent as a form, because queries may be longer than URLs. */
export async function query(text: string, params: Params, signal?: AbortSignal): Promise<Envelope<QueryData>> {
  const path = params["start"] === undefined ? "/api/v1/query" : "/api/v1/query_range";
  const form = new URLSearchParams({ query: text });
  for (const [name, value] of Object.entries(params)) if (value !== undefined) form.set(name, String(value));
  const response = await send(apiUrl(path), { method: "POST", body: form, ...(signal ? { signal } : {}) });
  return (await response.json()) as Envelope<QueryData>;
}
