import { getData, getJson } from "../../api/client";
import { useAnswer } from "../../api/hooks";
import type { Incident, IncidentList, PortSignals } from "../../api/types";
import { besides, considered, pausing, type Discarded } from "../../incidents/discarded";
import { nsToMs } from "../../lib/format";
import { LocationLink } from "../../parts/links";
import { Loaded } from "../../parts/notes";
import { href } from "../../router";

/** Incidents of one answer. */
const LIMIT = 200;

/** What else was looked at, and why it is not accused. */
export function LookedAt({ incident }: { incident: Incident }) {
  const answer = useAnswer(
    async (signal) => {
      const during = { from: Math.floor(nsToMs(incident.start_ns) / 1000), limit: LIMIT };
      const to = incident.end_ns === null ? undefined : Math.ceil(nsToMs(incident.end_ns) / 1000);
      const time = Math.ceil(nsToMs(incident.detected_ns) / 1000);
      const [incidents, observations, signals] = await Promise.all([
        getJson<IncidentList>("/api/v1/incidents", { ...during, to }, signal),
        getJson<IncidentList>("/api/v1/incidents", { ...during, to, severity: "info" }, signal),
        getData<PortSignals>("/api/v1/topology/signals", { signals: "pause_sent,pause_received", time }, signal),
      ]);
      return { others: [...incidents.incidents, ...observations.incidents], signals };
    },
    [incident.id, incident.detected_ns, incident.end_ns],
  );
  return (
    <section>
      <h2>Looked at and discarded</h2>
      <Loaded of={answer}>
        {({ others, signals }) => (
          <Rows all={[...considered(incident), ...besides(incident, others), ...pausing(incident, signals)]} />
        )}
      </Loaded>
    </section>
  );
}

function Rows({ all }: { all: readonly Discarded[] }) {
  if (all.length === 0) {
    return <p class="soft">No other cause was found, nothing else happened at its nodes, and no other port paused its neighbor.</p>;
  }
  return (
    <ul class="plain discarded">
      {all.map(({ key, what, at, measure, why, explanation, incident }) => (
        <li key={key}>
          <span>
            {incident ? <a href={href(`/incidents/${encodeURIComponent(incident)}`)}>{what}</a> : <b>{what}</b>} at{" "}
            <LocationLink at={at} />
          </span>
          <span class="soft">{measure}</span>
          <span>
            {why}
            {explanation && <span class="soft said">{explanation}</span>}
          </span>
        </li>
      ))}
    </ul>
  );
}
