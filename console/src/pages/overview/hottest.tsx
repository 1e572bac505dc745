import type { HottestPorts as Signal } from "../../api/types";
import { Bar } from "../../parts/badges";
import { PortLink } from "../../parts/links";
import { inUnit } from "../../lib/format";
import { SIGNALS } from "../../fabric/signals";
import { href } from "../../router";

/** The highest ports of each signal that any port has. */
export function HottestPorts({ signals }: { signals: readonly Signal[] }) {
  const shown = signals.filter(({ ports }) => ports.length > 0);
  return (
    <section>
      <h2>Hottest ports</h2>
      {shown.length === 0 && <p class="soft">No port has traffic, pause or errors.</p>}
      <div class="grid">
        {shown.map((signal) => (
          <List key={signal.name} signal={signal} />
        ))}
      </div>
    </section>
  );
}

function List({ signal }: { signal: Signal }) {
  const { words, help } = SIGNALS.find(({ name }) => name === signal.name) ?? { words: signal.name, help: "" };
  const top = signal.unit === "1" ? 1 : Math.max(...signal.ports.map(({ value }) => value));
  return (
    <div>
      <h3 title={help}>
        <a href={href("/fabric", { signal: signal.name })}>{words}</a>
      </h3>
      <ul class="plain">
        {signal.ports.map(({ node, port, value }) => (
          <li key={`${node} ${port}`} class="hot">
            <PortLink node={node} port={port} />
            <Bar share={value / top} text={inUnit(value, signal.unit)} kind={signal.name.startsWith("util") ? "good" : "bad"} />
          </li>
        ))}
      </ul>
    </div>
  );
}
