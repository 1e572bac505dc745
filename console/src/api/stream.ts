/** The stream of changes of incidents (server-sent events). Read by `fetch`, because `EventSource` cannot send a token. */

import { useEffect, useState } from "preact/hooks";
import { apiUrl, authorization } from "./client";

/** One event of a stream. */
export interface ServerEvent {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: string;
}

/** Splits a stream of text into events. Feed it chunks as they arrive. */
export class EventParser {
  private rest = "";

  feed(chunk: string): ServerEvent[] {
    const blocks = (this.rest + chunk).replaceAll("\r\n", "\n").split("\n\n");
    this.rest = blocks.pop() ?? "";
    return blocks.map(parse).filter((event) => event !== undefined);
  }
}

/** An event, or undefined for a comment, such as those that keep the connection open. */
function parse(block: string): ServerEvent | undefined {
  const fields = new Map<string, string>();
  for (const line of block.split("\n")) {
    const at = line.indexOf(":");
    if (at <= 0) continue;
    const name = line.slice(0, at);
    const value = line.slice(at + 1).replace(/^ /, "");
    const before = fields.get(name);
    fields.set(name, before === undefined ? value : `${before}\n${value}`);
  }
  const data = fields.get("data");
  return data === undefined ? undefined : { id: fields.get("id"), event: fields.get("event") ?? "message", data };
}

/** Whether changes arrive, and how many did. */
export interface Live {
  readonly connected: boolean;
  readonly changes: number;
}

/** Longest wait before another attempt, ms. */
const LONGEST_WAIT = 15_000;
/** Changes that arrive together count as one, so that a burst reads the lists twice a second at most, ms. */
const TOGETHER = 500;

let live: Live = { connected: false, changes: 0 };
let pending: number | undefined;

function set(changed: Partial<Live>): void {
  live = { ...live, ...changed };
  window.dispatchEvent(new Event("live"));
}

function changed(): void {
  pending ??= window.setTimeout(() => {
    pending = undefined;
    set({ changes: live.changes + 1 });
  }, TOGETHER);
}

/** Follows the stream until `signal` aborts; connects again after a break, and asks for what it missed. */
export async function follow(signal: AbortSignal): Promise<void> {
  let last: string | undefined;
  for (let wait = 1000; !signal.aborted; wait = Math.min(wait * 2, LONGEST_WAIT)) {
    try {
      const headers = { ...authorization(), ...(last ? { "last-event-id": last } : {}) };
      const response = await fetch(apiUrl("/api/v1/incidents/stream"), { headers, signal });
      if (response.ok && response.body) {
        set({ connected: true });
        // What happened before the connection is not in the stream.
        if (!last) changed();
        wait = 1000;
        last = (await read(response.body)) ?? last;
      }
    } catch {
      // Connects again below.
    }
    if (live.connected) set({ connected: false });
    await new Promise((done) => setTimeout(done, signal.aborted ? 0 : wait));
  }
}

/** Reads events to the end of the stream; gives the id of the last one. */
async function read(body: ReadableStream<Uint8Array>): Promise<string | undefined> {
  const parser = new EventParser();
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let last: string | undefined;
  for (;;) {
    const part = await reader.read().catch(() => ({ done: true, value: undefined }));
    if (part.done || !part.value) return last;
    for (const event of parser.feed(decoder.decode(part.value, { stream: true }))) {
      last = event.id ?? last;
      changed();
    }
  }
}

/** The state of the stream; the component is drawn again when it changes. */
export function useLive(): Live {
  const [state, setState] = useState(live);
  useEffect(() => {
    const update = () => setState(live);
    window.addEventListener("live", update);
    update();
    return () => window.removeEventListener("live", update);
  }, []);
  return state;
}
