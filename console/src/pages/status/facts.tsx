import { query } from "../../api/client";
import { useAnswer } from "../../api/hooks";
import { inUnit } from "../../lib/format";
import { QueryLink } from "../../parts/links";
import { Loaded } from "../../parts/notes";

/** A number of the collector or of its agents: a row. */
interface Fact {
  readonly group: "Ingest" | "Store" | "Queries" | "Forwarding" | "Dropped";
  readonly words: string;
  readonly promql: string;
  readonly unit: string;
  /** A value above zero is a loss. */
  readonly isLoss?: boolean;
}

const FACTS: readonly Fact[] = [
  { group: "Ingest", words: "samples per second", promql: "sum(rate(fabriclens_ingest_samples_total[1m]))", unit: "" },
  { group: "Ingest", words: "senders", promql: "fabriclens_ingest_senders", unit: "" },
  { group: "Ingest", words: "memory used, of the limit", promql: "fabriclens_memory_bytes / fabriclens_memory_limit_bytes", unit: "1" },
  { group: "Store", words: "series in memory", promql: "fabriclens_store_head_series", unit: "" },
  { group: "Store", words: "on disk", promql: "sum(fabriclens_store_block_bytes) + sum(fabriclens_store_wal_bytes)", unit: "By" },
  { group: "Queries", words: "per second", promql: "sum(rate(fabriclens_query_seconds_count[5m]))", unit: "" },
  { group: "Forwarding", words: "waiting to be sent", promql: "sum(fabriclens_forward_pending_bytes)", unit: "By" },
  { group: "Dropped", words: "points rejected in a day", promql: "sum(increase(fabriclens_ingest_rejected_total[1d]))", unit: "", isLoss: true },
  {
    group: "Dropped",
    words: "points dropped by agents in a day",
    promql: "sum(increase(fabriclens_agent_uplink_dropped_total[1d]))",
    unit: "",
    isLoss: true,
  },
  {
    group: "Dropped",
    words: "agents with one name",
    promql: "sum(increase(fabriclens_ingest_host_conflicts_total[1d]))",
    unit: "",
    isLoss: true,
  },
  { group: "Dropped", words: "requests refused in a day", promql: "sum(increase(fabriclens_requests_denied_total[1d]))", unit: "" },
];

export function Facts() {
  const answer = useAnswer(
    (signal) =>
      Promise.all(
        FACTS.map(async (fact) => {
          const { data } = await query(fact.promql, {}, signal);
          return data.resultType === "vector" ? data.result[0]?.value?.[1] : undefined;
        }),
      ),
    [],
    10_000,
  );
  return (
    <Loaded of={answer}>
      {(values) => (
        <div class="facts-grid">
          {[...new Set(FACTS.map(({ group }) => group))].map((group) => (
            <section key={group}>
              <h2>{group}</h2>
              <dl class="facts">
                {FACTS.map((fact, at) => {
                  const value = values[at];
                  return (
                    fact.group === group && (
                      <div key={fact.words} class={fact.isLoss && Number(value) > 0.5 ? "loss" : ""}>
                        <dt>
                          <QueryLink query={fact.promql}>{fact.words}</QueryLink>
                        </dt>
                        <dd>{value === undefined ? "–" : inUnit(Number(value), fact.unit)}</dd>
                      </div>
                    )
                  );
                })}
              </dl>
            </section>
          ))}
        </div>
      )}
    </Loaded>
  );
}
