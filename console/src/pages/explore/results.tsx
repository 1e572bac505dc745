import { useMemo } from "preact/hooks";
import type { Envelope, HistogramPoint, Labels, QueryData } from "../../api/types";
import { lines } from "../../charts/series";
import { Plot } from "../../charts/plot";
import { distinctLabels, seriesName } from "../../lib/promql";
import { Table, type Column } from "../../parts/table";

export interface Result {
  readonly instant: Envelope<QueryData>;
  readonly over: Envelope<QueryData> | undefined;
  /** Time that both took, ms. */
  readonly ms: number;
}

interface Row {
  readonly name: string;
  readonly value: string;
}

export function Results({ of }: { of: Result }) {
  const { instant, over } = of;
  const plotted = useMemo(() => {
    if (over?.data.resultType !== "matrix") return [];
    const differing = distinctLabels(over.data.result.map(({ metric }) => metric));
    const name = (labels: Labels) => differing.map((label) => labels[label]).filter(Boolean).join(" ") || seriesName(labels);
    return lines(over.data.result, name);
  }, [over]);
  const rows = useMemo(() => table(instant.data), [instant]);
  return (
    <>
      {plotted.length > 0 && <Plot title="" unit="" lines={plotted} height={300} />}
      <p class="soft" role="status">
        {rows.length} series in {Math.round(of.ms)} ms
        {rows.length === 0 && ": none matches at this moment"}
      </p>
      {rows.length > 0 && (
        <Table label="Series" rows={rows} columns={COLUMNS} rowKey={(row) => row.name} sort="" height={480} />
      )}
    </>
  );
}

const COLUMNS: readonly Column<Row>[] = [
  { name: "series", head: "Series", cell: (row) => <code>{row.name}</code>, sort: (row) => row.name },
  {
    name: "value",
    head: "Value",
    cell: (row) => <span title={row.value}>{rounded(row.value)}</span>,
    sort: (row) => Number(row.value),
    number: true,
  },
];

/** Six digits of a number with a fraction; everything else as it is. */
function rounded(text: string): string {
  const value = Number(text);
  return Number.isFinite(value) && text.includes(".") ? String(Number(value.toPrecision(6))) : text;
}

function words([, { count, sum }]: HistogramPoint): string {
  return `histogram of ${count}, sum ${sum}`;
}

function table(data: QueryData): Row[] {
  switch (data.resultType) {
    case "vector":
      return data.result.map(({ metric, value, histogram }) => ({
        name: seriesName(metric),
        value: value?.[1] ?? (histogram ? words(histogram) : ""),
      }));
    case "matrix":
      return data.result.map(({ metric, values, histograms }) => ({
        name: seriesName(metric),
        value: [...(values ?? []).map(([, value]) => value), ...(histograms ?? []).map(words)].join(" "),
      }));
    default:
      return [{ name: data.resultType, value: data.result[1] }];
  }
}
