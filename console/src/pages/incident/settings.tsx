import type { Incident } from "../../api/types";
import { clock } from "../../lib/format";
import { PortOrDeviceLink } from "../../parts/links";

/** Settings of the incident's place that are not as expected, the latest change first: the first thing to look at. */
export function WrongSettings({ incident }: { incident: Incident }) {
  const settings = incident.settings ?? [];
  if (settings.length === 0) return null;
  return (
    <section>
      <h2>Set wrong there</h2>
      <ul class="plain">
        {settings.map(({ node, port, title, value, expected, changed }) => (
          <li key={`${port} ${title} ${value}`}>
            <PortOrDeviceLink node={node} port={port} />: {title} <b>{value}</b>, expected {expected}
            {changed && (
              <>
                {" "}
                since <time dateTime={new Date(changed[0]).toISOString()}>{clock(changed[0])}</time>, before: {changed[1]}
              </>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
