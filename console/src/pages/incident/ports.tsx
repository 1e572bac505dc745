import type { Incident } from "../../api/types";
import { JobLink, LocationLink, PortLink } from "../../parts/links";

/** How a path is known, in words. */
const KNOWN: Readonly<Record<string, string>> = {
  traced: "traced",
  forwarding_table: "by the forwarding tables",
  one_of: "one of several possible paths",
};

/** The path of the flows that show the incident. */
export function PathOf({ incident }: { incident: Incident }) {
  if (!incident.path) return null;
  const { ports, known } = incident.path;
  return (
    <section>
      <h2>
        Path of its flows <span class="soft">({KNOWN[known] ?? known})</span>
      </h2>
      <ol class="path">
        {ports.map((at, n) => (
          <li key={n}>
            <LocationLink at={at} />
          </li>
        ))}
      </ol>
    </section>
  );
}

/** The ports that overload a receiver, the largest first. */
export function Senders({ incident }: { incident: Incident }) {
  const senders = incident.senders ?? [];
  if (senders.length === 0) return null;
  return (
    <section>
      <h2>Senders, the largest first</h2>
      <ul class="inline">
        {senders.map(({ node, port, job }) => (
          <li key={`${node} ${port}`}>
            <PortLink node={node} port={port} />
            {job && (
              <>
                {" of job "}
                <JobLink name={job} />
              </>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
