import { query } from "../../api/client";
import { useAnswer } from "../../api/hooks";
import type { SwitchSource } from "../../api/types";
import { clock, duration } from "../../lib/format";
import { NodeLink } from "../../parts/links";
import { Loaded } from "../../parts/notes";
import { Table, type Column } from "../../parts/table";

interface Host {
  readonly host: string;
  readonly version: string;
  /** Age of the newest sample, s. */
  readonly age: number;
  /** Time since the agent started, s. */
  readonly up: number | undefined;
}

const HEARD = "fabriclens_agent_start_time_seconds";
/** Age of the newest sample of a silent agent, s. */
const SILENT = 60;

const HOSTS: readonly Column<Host>[] = [
  { name: "host", head: "Host", cell: ({ host }) => <NodeLink node={host} />, sort: ({ host }) => host },
  {
    name: "age",
    head: "Newest sample",
    cell: ({ age }) => <span class={age > SILENT ? "badge warning" : ""}>{duration(Math.max(0, age))} ago</span>,
    sort: ({ age }) => age,
    number: true,
  },
  { name: "up", head: "Runs for", cell: ({ up }) => (up === undefined ? "–" : duration(up)), sort: ({ up }) => up, number: true },
  { name: "version", head: "Version", cell: ({ version }) => version, sort: ({ version }) => version },
];

/** Hosts with an agent that was heard within six hours. */
export function Hosts() {
  const answer = useAnswer(
    async (signal) => {
      const vector = async (promql: string) => {
        const { data } = await query(promql, {}, signal);
        return data.resultType === "vector" ? data.result : [];
      };
      const [ages, starts, versions] = await Promise.all([
        vector(`max by (host) (time() - max_over_time(timestamp(${HEARD})[6h:5m])) unless on (host) ${HEARD} or max by (host) (time() - timestamp(${HEARD}))`),
        vector(`max by (host) (time() - ${HEARD})`),
        vector("max by (host, version) (fabriclens_agent_info)"),
      ]);
      const up = new Map(starts.map(({ metric, value }) => [metric["host"], Number(value?.[1])]));
      const version = new Map(versions.map(({ metric }) => [metric["host"], metric["version"] ?? ""]));
      return ages.map(({ metric, value }) => {
        const host = metric["host"] ?? "";
        return { host, age: Number(value?.[1]), up: up.get(host), version: version.get(host) ?? "" };
      });
    },
    [],
    10_000,
  );
  return (
    <section>
      <h2>Hosts</h2>
      <Loaded of={answer}>
        {(rows) =>
          rows.length === 0 ? (
            <p class="soft">No agent has sent anything in six hours.</p>
          ) : (
            <Table label="Hosts" rows={rows} columns={HOSTS} rowKey={({ host }) => host} sort="age" height={360} />
          )
        }
      </Loaded>
    </section>
  );
}

const SWITCHES: readonly Column<SwitchSource>[] = [
  { name: "switch", head: "Switch", cell: (of) => <NodeLink node={of.switch} />, sort: (of) => of.switch },
  { name: "source", head: "Source", cell: (of) => of.source, sort: (of) => of.source },
  {
    name: "last",
    head: "Newest sample",
    cell: (of) => (of.last_ms > 0 ? <span class={of.silent ? "badge warning" : ""}>{clock(of.last_ms)}</span> : "–"),
    sort: (of) => of.last_ms,
    number: true,
  },
  {
    name: "failed",
    head: "Streams",
    cell: (of) =>
      of.streams.length === 0
        ? ""
        : of.streams.map(({ stream, failed }) => (failed ? `${stream}: ${failed}` : stream)).join(", "),
  },
  {
    name: "unknown",
    head: "Names not understood",
    cell: (of) => (of.unknown.length > 0 ? <span title={of.unknown.map(({ name }) => name).join("\n")}>{of.unknown.length}</span> : ""),
    sort: (of) => of.unknown.length,
    number: true,
  },
];

export function Switches({ of }: { of: readonly SwitchSource[] }) {
  return (
    <section>
      <h2>Switches</h2>
      {of.length === 0 ? (
        <p class="soft">No switch sends samples.</p>
      ) : (
        <Table
          label="Switches"
          rows={of}
          columns={SWITCHES}
          rowKey={(one) => `${one.switch} ${one.source}`}
          sort="switch"
          height={360}
        />
      )}
    </section>
  );
}
