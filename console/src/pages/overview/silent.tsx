import type { Overview } from "../../api/types";
import { NodeLink } from "../../parts/links";
import { duration } from "../../lib/format";

/** Agents and switches that have stopped sending. */
export function Silent({ of }: { of: Overview }) {
  const { hosts } = of.measured;
  const { switches } = of;
  if (hosts.silent + switches.silent === 0) return null;
  return (
    <section>
      <h2>Silent</h2>
      <ul class="plain">
        {hosts.names.map(({ host, silent_s }) => (
          <li key={host}>
            <NodeLink node={host} /> <span class="soft">agent, for {duration(silent_s)}</span>
          </li>
        ))}
        {switches.names.map((name) => (
          <li key={name}>
            <NodeLink node={name} /> <span class="soft">switch</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
