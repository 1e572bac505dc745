import type { Incident } from "../../api/types";
import { clock } from "../../lib/format";

/** Faults that the kernel log of the incident's place named shortly before it or meanwhile. */
export function KernelLog({ incident }: { incident: Incident }) {
  const events = incident.kernel_log ?? [];
  if (events.length === 0) return null;
  return (
    <section>
      <h2>Kernel log there</h2>
      <ul class="plain">
        {events.map((event) => (
          <li key={`${event.node} ${event.pci_address} ${event.device} ${event.class} ${event.code} ${event.job}`}>
            {[event.node, event.device, event.pci_address].filter(Boolean).join(" ")},{" "}
            <time dateTime={new Date(event.at_ms).toISOString()}>{clock(event.at_ms)}</time>: <b>{event.title}</b>
            {event.job && `, of job ${event.job}`} ({event.class}
            {event.code && ` ${event.code}`}){event.may_be_reason && "; may be the reason"}
          </li>
        ))}
      </ul>
    </section>
  );
}
