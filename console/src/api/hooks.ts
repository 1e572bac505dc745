/** Reading the API in components. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "./client";

/** What a component knows of an answer. Old values are kept while a new answer is awaited or fails. */
export interface Answer<T> {
  readonly value: T | undefined;
  readonly error: ApiError | undefined;
  /** Whether the first answer is still awaited. */
  readonly waiting: boolean;
  /** Asks again now. */
  readonly again: () => void;
}

/**
 * Reads with `ask` now, whenever a key changes, and every `every` ms while the page is visible. One request runs at a time; a key
 * that changes cancels it.
 */
export function useAnswer<T>(
  ask: (signal: AbortSignal) => Promise<T>,
  keys: readonly unknown[],
  every?: number,
): Answer<T> {
  const [state, setState] = useState<{ value?: T; error?: ApiError; waiting: boolean }>({ waiting: true });
  const [turn, setTurn] = useState(0);
  const latest = useRef(ask);
  latest.current = ask;
  useEffect(() => {
    const abort = new AbortController();
    let timer: number | undefined;
    const run = async () => {
      if (document.hidden && every !== undefined) return next();
      try {
        const value = await latest.current(abort.signal);
        if (!abort.signal.aborted) setState({ value, waiting: false });
      } catch (error) {
        if (abort.signal.aborted) return;
        const known = error instanceof ApiError ? error : new ApiError(String(error), 0);
        setState((before) => ({ ...before, error: known, waiting: false }));
        // What does not exist is not asked for again and again; a change of a key asks again.
        if (known.status === 404) return;
      }
      next();
    };
    const next = () => {
      if (every !== undefined && !abort.signal.aborted) timer = window.setTimeout(() => void run(), every);
    };
    void run();
    return () => {
      abort.abort();
      window.clearTimeout(timer);
    };
  }, [...keys, turn, every]);
  return { value: state.value, error: state.error, waiting: state.waiting, again: () => setTurn((n) => n + 1) };
}

/** The time, again every `every` ms; for durations that grow. */
export function useNow(every: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), every);
    return () => window.clearInterval(timer);
  }, [every]);
  return now;
}
