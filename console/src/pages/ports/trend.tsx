/** Small multiples: the course of one counter in each row of the table of ports, on one scale. */

import { createContext, type ComponentChildren } from "preact";
import { useContext, useMemo } from "preact/hooks";
import { query } from "../../api/client";
import { useAnswer } from "../../api/hooks";
import { inUnit } from "../../lib/format";
import { COVERS, portKey, sparkPath, STEP, trendQuery, trends, type PortName, type TrendCounter } from "../../ports/trends";

const WIDTH = 96;
const HEIGHT = 22;

interface Courses {
  readonly of: ReadonlyMap<string, readonly (number | null)[]>;
  /** Highest value in view. */
  readonly top: number;
  readonly unit: string;
}

const Known = createContext<Courses>({ of: new Map(), top: 0, unit: "" });

/** Reads the courses of the ports in view, by one query each half minute and whenever the view changes. */
export function TrendsOf(props: { counter: TrendCounter | undefined; ports: readonly PortName[]; children: ComponentChildren }) {
  const { counter, ports } = props;
  const text = counter && ports.length > 0 ? trendQuery(counter, ports) : "";
  const answer = useAnswer(
    async (signal) => {
      const end = Math.floor(Date.now() / 1000 / STEP) * STEP;
      if (!text || !counter) return undefined;
      const { data } = await query(text, { start: end - COVERS, end, step: STEP }, signal);
      return data.resultType === "matrix" ? { counter, of: trends(data.result, end - COVERS) } : undefined;
    },
    [text],
    STEP * 1000,
  );
  const courses = useMemo<Courses>(() => {
    // Until the next answer is there, the last one may be of another counter.
    const of = answer.value && answer.value.counter === counter ? answer.value.of : new Map<string, (number | null)[]>();
    const shown = ports.map(({ node, port }) => of.get(portKey(node, port)) ?? []);
    return { of, top: Math.max(0, ...shown.flat().map((value) => value ?? 0)), unit: counter?.unit ?? "" };
  }, [answer.value, ports, counter]);
  return <Known.Provider value={courses}>{props.children}</Known.Provider>;
}

/** The course of one port. */
export function Trend({ of }: { of: PortName }) {
  const { of: known, top, unit } = useContext(Known);
  const points = known.get(portKey(of.node, of.port));
  if (!points) return null;
  const values = points.filter((value) => value !== null);
  if (values.length === 0) return null;
  const words = `between ${inUnit(Math.min(...values), unit)} and ${inUnit(Math.max(...values), unit)} in the last 15 minutes`;
  return (
    <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={words}>
      <title>{words}</title>
      <path d={sparkPath(points, top, WIDTH, HEIGHT)} />
    </svg>
  );
}
