import type { BriefIncident, Overview } from "../../api/types";
import { useNow } from "../../api/hooks";
import { SeverityBadge } from "../../parts/badges";
import { JobLinks, LocationLink } from "../../parts/links";
import { duration, kindWords, nsToMs, percent } from "../../lib/format";
import { href } from "../../router";

/** The open incidents, the worst first. */
export function OpenIncidents({ of }: { of: Overview["incidents"] }) {
  const left = of.critical + of.warning - of.list.length;
  return (
    <section>
      <h2>Open incidents</h2>
      {of.list.length === 0 && <p class="soft">None.</p>}
      <ul class="cards">
        {of.list.map((incident) => (
          <Card key={incident.id} incident={incident} />
        ))}
      </ul>
      {left > 0 && <a href={href("/incidents", { state: "open" })}>{left} more</a>}
    </section>
  );
}

function Card({ incident }: { incident: BriefIncident }) {
  const now = useNow(1000);
  const since = duration((now - nsToMs(incident.start_ns)) / 1000);
  return (
    <li class={`card ${incident.severity}`}>
      <h3>
        <a href={href(`/incidents/${encodeURIComponent(incident.id)}`)}>{kindWords(incident.kind)}</a> at{" "}
        <LocationLink at={incident.root} />
      </h3>
      <p class="meta">
        <SeverityBadge severity={incident.severity} /> for {since}, confidence {percent(incident.confidence)}
        {incident.acknowledged && ", acknowledged"}
        {incident.silenced && ", silenced"}
      </p>
      <p>{incident.explanation}</p>
      <p>
        <b>Victims</b> <JobLinks names={incident.victim_jobs} none="no job" />
      </p>
      <p>
        <b>What to do</b> {incident.action}
      </p>
    </li>
  );
}
