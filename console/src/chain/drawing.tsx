/** Draws the chain of pause from left to right. */

import { useMemo } from "preact/hooks";
import type { Incident, TopologyLink } from "../api/types";
import { href } from "../router";
import { layOut, type ChainNode } from "./layout";

const WIDTH = 150;
const HEIGHT = 40;
const STEP_X = 250;
const STEP_Y = 58;

export function ChainDrawing(props: {
  incident: Incident;
  links: readonly TopologyLink[];
  victims: readonly { readonly job: string; readonly hosts: readonly string[] }[];
}) {
  const { incident, links, victims } = props;
  const chain = useMemo(() => layOut(incident, links, victims), [incident, links, victims]);
  const place = useMemo(() => {
    const height = (column: number) => chain.nodes.filter((node) => node.column === column).length;
    return new Map(
      chain.nodes.map((node) => {
        const top = ((chain.rows - height(node.column)) / 2) * STEP_Y;
        return [node.name, { node, x: node.column * STEP_X, y: top + node.row * STEP_Y }];
      }),
    );
  }, [chain]);
  if (chain.nodes.length < 2) return null;
  const width = (chain.columns - 1) * STEP_X + WIDTH;
  const height = (chain.rows - 1) * STEP_Y + HEIGHT;
  return (
    <section>
      <h2>Who keeps whom from sending</h2>
      <div class="chain" role="region" aria-label="Chain of pause" tabIndex={0}>
        <svg viewBox={`-4 -4 ${width + 8} ${height + 8}`} width={width + 8} height={height + 8} role="group" aria-label="Nodes of the chain">
          {chain.edges.map(({ from, to, ports }) => {
            const [a, b] = [place.get(from), place.get(to)];
            if (!a || !b) return null;
            const [x1, y1, x2, y2] = [a.x + WIDTH, a.y + HEIGHT / 2, b.x, b.y + HEIGHT / 2];
            const middle = (x1 + x2) / 2;
            return (
              <g key={`${from} ${to}`} class={ports.length > 0 ? "edge" : "edge job"}>
                <path d={`M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}`} />
                {ports.length > 0 && (
                  <text x={x2 - 6} y={y2 - 5} text-anchor="end">
                    {ports.length === 1 ? ports[0] : `${ports.length} ports`}
                  </text>
                )}
              </g>
            );
          })}
          {[...place.values()].map(({ node, x, y }) => (
            <Box key={node.name} node={node} x={x} y={y} />
          ))}
        </svg>
      </div>
      <details>
        <summary>The same as text</summary>
        <ul>
          {chain.edges.map(({ from, to, ports }) => (
            <li key={`${from} ${to}`}>
              {ports.length > 0 ? `${from} keeps ${to} from sending at ${ports.join(", ")}` : `${to} runs on ${from}`}
            </li>
          ))}
        </ul>
      </details>
    </section>
  );
}

const PARTS: Readonly<Record<ChainNode["part"], string>> = {
  culprit: "culprit",
  paused: "cannot send",
  pausing: "keeps others",
  job: "suffers",
  more: "",
};

function Box({ node, x, y }: { node: ChainNode; x: number; y: number }) {
  const inside = (
    <>
      <rect x={x} y={y} width={WIDTH} height={HEIGHT} rx="5" />
      <text x={x + WIDTH / 2} y={y + (node.part === "more" ? 25 : 17)} text-anchor="middle" class="name">
        {node.name}
      </text>
      <text x={x + WIDTH / 2} y={y + 32} text-anchor="middle" class="part">
        {PARTS[node.part]}
      </text>
    </>
  );
  const to =
    node.part === "job"
      ? href(`/jobs/${node.name.slice(4).split("/").map(encodeURIComponent).join("/")}`)
      : href("/ports", { node: node.name });
  return node.part === "more" ? (
    <g class="box more">{inside}</g>
  ) : (
    <a href={to} class={`box ${node.part}`}>
      {inside}
    </a>
  );
}
