import type { Incident } from "../../api/types";
import { clock, nsToMs } from "../../lib/format";

/** What happened to the incident, in order, with what people did and noted. */
export function History({ incident }: { incident: Incident }) {
  return (
    <section>
      <h2>History</h2>
      <ol class="history">
        {incident.history.map(({ at_ns, state, detail }, n) => (
          <li key={n}>
            <time dateTime={new Date(nsToMs(at_ns)).toISOString()}>{clock(nsToMs(at_ns))}</time> <b>{state}</b> {detail}
          </li>
        ))}
      </ol>
    </section>
  );
}
