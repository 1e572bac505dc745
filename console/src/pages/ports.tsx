/** Hosts and ports: one row for each port, with every signal now; sorted and filtered in the browser. */

import { useMemo, useState } from "preact/hooks";
import { getData } from "../api/client";
import { useAnswer } from "../api/hooks";
import type { PortSignals } from "../api/types";
import { SIGNALS } from "../fabric/signals";
import { inUnit } from "../lib/format";
import { SelectFilter, TextFilter } from "../parts/filters";
import { NodeLink, PortLink } from "../parts/links";
import { Loaded, Note } from "../parts/notes";
import { Table, type Column } from "../parts/table";
import { TRENDS, type PortName } from "../ports/trends";
import { usePlace } from "../router";
import { Trend, TrendsOf } from "./ports/trend";

interface Row {
  readonly node: string;
  readonly port: string;
  readonly values: Readonly<Record<string, number>>;
}

/** Signals of the table, in its order. */
const SHOWN = ["utilization", "utilization_received", "pause_sent", "pause_received", "xmit_wait", "marks", "errors", "discards"];

export default function Ports() {
  const answer = useAnswer(
    (signal) => getData<PortSignals>("/api/v1/topology/signals", { signals: [...SHOWN, "up"].join(",") }, signal),
    [],
    5000,
  );
  return (
    <>
      <h1>Ports</h1>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <TextFilter label="Host, switch or port" name="find" placeholder="gpu-01" />
        <TextFilter label="Exactly this node" name="node" />
        <SelectFilter
          label="Show"
          name="only"
          options={[["", "all ports"], ["down", "ports that are down"], ["trouble", "ports with pause, waits or errors"]]}
        />
        <SelectFilter
          label="Last 15 minutes of"
          name="trend"
          options={[...TRENDS.map(({ name, words }, n) => [n === 0 ? "" : name, words] as const), ["none", "nothing"]]}
        />
      </form>
      <Loaded of={answer}>{(value) => <List of={value} />}</Loaded>
    </>
  );
}

/** Signals whose values are trouble. */
const TROUBLE = ["pause_sent", "pause_received", "xmit_wait", "errors", "discards"];

function List({ of }: { of: PortSignals }) {
  const { params } = usePlace();
  const [find, node, only] = [params.get("find")?.toLowerCase() ?? "", params.get("node"), params.get("only")];
  const all = useMemo(() => rows(of), [of]);
  const shown = useMemo(
    () =>
      all.filter((row) => {
        if (node && row.node !== node) return false;
        if (only === "down" && row.values["up"] !== 0) return false;
        if (only === "trouble" && !TROUBLE.some((name) => (row.values[name] ?? 0) > 0)) return false;
        return find === "" || `${row.node} ${row.port}`.toLowerCase().includes(find);
      }),
    [all, find, node, only],
  );
  const counter = params.get("trend") === "none" ? undefined : (TRENDS.find(({ name }) => name === params.get("trend")) ?? TRENDS[0]);
  const columns = useMemo(() => columnsOf(of, counter?.words), [of, counter]);
  const [view, setView] = useState<readonly PortName[]>([]);
  if (all.length === 0) return <Note>No port has sent a sample in the last minutes.</Note>;
  return (
    <>
      <p class="soft" role="status">
        {shown.length} of {all.length} ports
      </p>
      <TrendsOf counter={counter} ports={view}>
        <Table
          label="Ports"
          rows={shown}
          columns={columns}
          rowKey={(row) => `${row.node} ${row.port}`}
          sort="port"
          height={640}
          onView={setView}
        />
      </TrendsOf>
    </>
  );
}

function rows(of: PortSignals): Row[] {
  return of.ports.map(([node, port], at) => {
    const values: Record<string, number> = {};
    for (const { name, values: column } of of.signals) {
      const value = column[at];
      if (value !== null && value !== undefined) values[name] = value;
    }
    return { node, port, values };
  });
}

function columnsOf(of: PortSignals, trend: string | undefined): Column<Row>[] {
  const numbers = SHOWN.flatMap((name): Column<Row>[] => {
    const column = of.signals.find((signal) => signal.name === name);
    // A signal that no port has, such as XmitWait on Ethernet, needs no column.
    if (!column?.values.some((value) => value !== null)) return [];
    const { words, help } = SIGNALS.find((signal) => signal.name === name) ?? { words: name, help: "" };
    const cell = ({ values }: Row) => {
      const value = values[name];
      return value === undefined ? <span class="soft">–</span> : inUnit(value, column.unit);
    };
    return [{ name, head: words, help, cell, sort: ({ values }) => values[name], number: true }];
  });
  return [
    { name: "port", head: "Port", cell: (row) => <PortLink node={row.node} port={row.port} />, sort: (row) => `${row.node} ${row.port}` },
    { name: "node", head: "Host or switch", cell: (row) => <NodeLink node={row.node} />, sort: (row) => row.node },
    {
      name: "up",
      head: "Link",
      cell: ({ values }) => {
        const up = values["up"];
        return up === undefined ? "" : up > 0 ? "up" : <span class="badge warning">down</span>;
      },
      sort: ({ values }) => values["up"],
    },
    ...(trend ? [{ name: "trend", head: trend, help: "The last 15 minutes", cell: (row: Row) => <Trend of={row} /> }] : []),
    ...numbers,
  ];
}
