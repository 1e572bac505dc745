/** A bar of time: live, or an instant of the past, with the incidents of the time on it. */

import { useEffect, useState } from "preact/hooks";
import { getJson } from "../api/client";
import { useAnswer, useNow } from "../api/hooks";
import { useLive } from "../api/stream";
import type { IncidentList } from "../api/types";
import { clock, kindWords, nsToMs } from "../lib/format";
import { setParams } from "../router";

/** Lengths of the bar, seconds. */
const SPANS = [
  [600, "10 minutes"],
  [3600, "1 hour"],
  [21_600, "6 hours"],
  [86_400, "1 day"],
  [604_800, "1 week"],
] as const;
/** Steps of a bar. */
const STEPS = 600;
/** Time between two frames of a replay, ms. */
const FRAME = 700;

export function TimeBar({ time, span }: { time: number | undefined; span: number }) {
  const now = Math.floor(useNow(2000) / 1000);
  const [playing, setPlaying] = useState(false);
  const { changes } = useLive();
  // A time outside the bar moves the bar.
  const end = time !== undefined && time < now - span ? Math.floor(time + span / 2) : now;
  const start = end - span;
  const step = Math.max(1, Math.round(span / STEPS));
  const incidents = useAnswer(
    (signal) => getJson<IncidentList>("/api/v1/incidents", { from: start, to: end, limit: 200 }, signal),
    [changes, span, Math.floor(end / 60)],
  );
  // Only the right end of the bar is live: a step back from just now leads to the past.
  const at = (seconds: number | undefined) =>
    setParams({ time: seconds === undefined || seconds > now - step ? undefined : String(Math.round(seconds)) });
  useEffect(() => {
    if (!playing) return undefined;
    const timer = window.setTimeout(() => {
      const next = (time ?? start) + Math.max(step, 2);
      if (next >= now) setPlaying(false);
      at(next);
    }, FRAME);
    return () => window.clearTimeout(timer);
  }, [playing, time]);
  const shown = time ?? end;
  return (
    <div class="timebar">
      <div class="marks" aria-hidden="true">
        {incidents.value?.incidents.map((one) => {
          const from = (nsToMs(one.start_ns) / 1000 - start) / span;
          const to = ((one.end_ns === null ? end : nsToMs(one.end_ns) / 1000) - start) / span;
          const style = { left: `${Math.max(0, from) * 100}%`, width: `${Math.max(0.3, (Math.min(1, to) - Math.max(0, from)) * 100)}%` };
          return <span key={one.id} class={one.severity} style={style} title={kindWords(one.kind)} />;
        })}
      </div>
      <input
        type="range"
        aria-label="Time"
        aria-valuetext={time === undefined ? "live" : clock(shown * 1000)}
        min={start}
        max={end}
        step={step}
        value={shown}
        onInput={(event) => at(Number(event.currentTarget.value))}
      />
      <div class="controls">
        <span>{clock(start * 1000)}</span>
        <button onClick={() => setPlaying(!playing)}>{playing ? "Pause" : "Replay"}</button>
        <button disabled={time === undefined} onClick={() => at(undefined)}>
          Live
        </button>
        <output>{time === undefined ? "live" : clock(shown * 1000)}</output>
        <label class="filter">
          Span
          <select value={String(span)} onChange={(event) => setParams({ span: event.currentTarget.value })}>
            {SPANS.map(([value, words]) => (
              <option key={value} value={String(value)}>
                {words}
              </option>
            ))}
          </select>
        </label>
        <span>{clock(end * 1000)}</span>
      </div>
    </div>
  );
}
