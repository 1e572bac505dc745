/** Overview: is the fabric healthy, what is open, who suffers, what is busy, who is silent. One screen. */

import { getData } from "../api/client";
import { useAnswer } from "../api/hooks";
import { useLive } from "../api/stream";
import type { Overview } from "../api/types";
import { Tile } from "../parts/badges";
import { Loaded, Note, Warnings } from "../parts/notes";
import { href } from "../router";
import { HottestPorts } from "./overview/hottest";
import { OpenIncidents } from "./overview/incidents";
import { Silent } from "./overview/silent";
import { SufferingJobs } from "./overview/suffering";

export default function OverviewPage() {
  const { changes } = useLive();
  const answer = useAnswer((signal) => getData<Overview>("/api/v1/overview", {}, signal), [changes], 5000);
  return (
    <>
      <h1 class="hidden">Overview</h1>
      <Loaded of={answer}>{(value) => <Content of={value} />}</Loaded>
    </>
  );
}

function Content({ of }: { of: Overview }) {
  const { measured, incidents } = of;
  if (measured.ports.known === 0 && measured.hosts.reporting === 0 && incidents.list.length === 0) return <Empty of={of} />;
  return (
    <>
      <Sentence of={of} />
      <div class="tiles">
        <Tile
          value={`${incidents.critical + incidents.warning}`}
          label="open incidents"
          kind={incidents.critical > 0 ? "critical" : incidents.warning > 0 ? "warning" : "good"}
          href={href("/incidents", { state: "open" })}
        />
        <Tile
          value={`${measured.suffering.length}`}
          label="jobs that suffer"
          kind={measured.suffering.length > 0 ? "critical" : "good"}
          href={href("/jobs")}
        />
        <Tile
          value={`${measured.hosts.reporting}`}
          label={measured.hosts.silent > 0 ? `hosts report, ${measured.hosts.silent} silent` : "hosts report"}
          kind={measured.hosts.silent > 0 ? "warning" : undefined}
          href={href("/status")}
        />
        <Tile
          value={`${of.switches.known}`}
          label={of.switches.silent > 0 ? `switches, ${of.switches.silent} silent` : "switches"}
          kind={of.switches.silent > 0 ? "warning" : undefined}
          href={href("/status")}
        />
        <Tile value={`${measured.ports.up.up} of ${measured.ports.up.of}`} label="ports up" href={href("/ports")} />
      </div>
      <Warnings texts={[...of.remarks, ...measured.warnings]} />
      <div class="columns">
        <OpenIncidents of={incidents} />
        <div>
          <SufferingJobs jobs={measured.suffering} />
          <Silent of={of} />
        </div>
      </div>
      <HottestPorts signals={measured.ports.hottest} />
    </>
  );
}

/** The state of the fabric in one sentence. */
function Sentence({ of }: { of: Overview }) {
  const { critical, warning, info } = of.incidents;
  const seen = info > 0 ? ` ${info} ${info === 1 ? "observation is" : "observations are"} open, too.` : "";
  if (critical > 0) {
    const suffering = of.measured.suffering.length;
    const jobs = suffering === 1 ? "1 job suffers" : `${suffering} jobs suffer`;
    return <p class="sentence critical">{`${jobs} from ${critical} open ${critical === 1 ? "incident" : "incidents"}.${seen}`}</p>;
  }
  if (warning > 0) {
    return <p class="sentence warning">{`${warning} open ${warning === 1 ? "incident" : "incidents"}; no job suffers yet.${seen}`}</p>;
  }
  return <p class="sentence good">{`No incident is open.${seen}`}</p>;
}

/** What to do where no agent has sent anything yet. */
function Empty({ of }: { of: Overview }) {
  return (
    <>
      <p class="sentence">No agent and no switch has sent a sample yet.</p>
      <Warnings texts={of.remarks} />
      <p>
        Start an agent on a host: <code>fabriclens-agent run --collector http://THIS-HOST:4317</code>. Its ports appear here
        within seconds.
      </p>
      <Note>
        Jobs come from a scheduler or from <code>POST /api/v1/jobs</code>, cables from LLDP, from InfiniBand subnets or from a
        topology file.
      </Note>
    </>
  );
}
