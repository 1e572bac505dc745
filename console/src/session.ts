/** Who the reader is. A token is kept by this tab only (sessionStorage) and sent to this collector only. */

import { useEffect, useState } from "preact/hooks";
import type { Session } from "./api/types";

const KEY = "fabriclens.token";

/** The token that the reader gave in this tab. */
export function token(): string | undefined {
  return sessionStorage.getItem(KEY) ?? undefined;
}

/** Keeps a token, or forgets it. */
export function setToken(given: string | undefined): void {
  if (given) sessionStorage.setItem(KEY, given);
  else sessionStorage.removeItem(KEY);
  window.dispatchEvent(new Event("session"));
}

let current: Session | undefined;

/** Keeps what the collector said of the reader. */
export function setSession(session: Session): void {
  current = session;
}

/** Whether the reader may do something: `read`, `write`, `admin`. Nobody may before the collector has answered. */
export function may(what: Session["may"][number]): boolean {
  return current?.may.includes(what) ?? false;
}

/** A number that grows whenever the token changes. */
export function useSessionChanges(): number {
  const [changes, setChanges] = useState(0);
  useEffect(() => {
    const changed = () => setChanges((n) => n + 1);
    window.addEventListener("session", changed);
    return () => window.removeEventListener("session", changed);
  }, []);
  return changes;
}
