/** Status: agents, switches, ingest, store, forwarding, and what is dropped. */

import { getData, getText } from "../api/client";
import { useAnswer } from "../api/hooks";
import type { SwitchSource } from "../api/types";
import { Loaded } from "../parts/notes";
import { Facts } from "./status/facts";
import { Hosts, Switches } from "./status/senders";

export default function Status() {
  const ready = useAnswer((signal) => getText("/readyz", {}, signal), [], 10_000);
  const switches = useAnswer(
    (signal) => getData<{ switches: readonly SwitchSource[] }>("/api/v1/switches", {}, signal),
    [],
    10_000,
  );
  return (
    <>
      <h1>Status</h1>
      <Loaded of={ready}>
        {(text) => (
          <ul class="plain">
            {text
              .trim()
              .split("\n")
              .map((line) => (
                <li key={line}>{line}</li>
              ))}
          </ul>
        )}
      </Loaded>
      <Facts />
      <div class="columns">
        <Hosts />
        <Loaded of={switches}>{(value) => <Switches of={value.switches} />}</Loaded>
      </div>
      <p>
        <a href="api/v1/status/flags" target="_blank" rel="noopener">
          Configuration
        </a>
        {" · "}
        <a href="api/v1/status/tsdb" target="_blank" rel="noopener">
          Series by metric
        </a>
        {" · "}
        <a href="metrics" target="_blank" rel="noopener">
          Metrics of the collector
        </a>
      </p>
    </>
  );
}
