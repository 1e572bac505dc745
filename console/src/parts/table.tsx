/** A table that sorts by its columns and draws only the rows in view, so that thousands of rows cost as much as thirty. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { setParams, usePlace } from "../router";
import { sorted, type Column } from "./columns";

export type { Column };

/** Height of a row, px; the style sheet has the same. */
const ROW = 30;
/** Rows drawn above and below the view. */
const MARGIN = 10;
/** Time after which a view counts as chosen and not as passed by, ms. */
const SETTLED = 200;

export function Table<Row>(props: {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  rowKey: (row: Row) => string;
  sort: string;
  /** Height of the view, px; without it the table is as high as its rows. */
  height?: number;
  /** Is told the rows that are drawn, whenever they change and then stay for a moment. */
  onView?: (rows: readonly Row[]) => void;
}) {
  const sort = usePlace().params.get("sort") ?? props.sort;
  const rows = useMemo(() => sorted(props.rows, props.columns, sort), [props.rows, props.columns, sort]);
  const [top, setTop] = useState(0);
  const view = useRef<HTMLDivElement>(null);
  const height = props.height ?? rows.length * ROW;
  const first = props.height ? Math.max(0, Math.floor(top / ROW) - MARGIN) : 0;
  const last = props.height ? Math.min(rows.length, Math.ceil((top + height) / ROW) + MARGIN) : rows.length;
  const drawn = useMemo(() => rows.slice(first, last), [rows, first, last]);
  const { onView } = props;
  useEffect(() => {
    const timer = onView && window.setTimeout(() => onView(drawn), SETTLED);
    return () => window.clearTimeout(timer);
  }, [drawn, onView]);
  const choose = (name: string) => {
    setParams({ sort: sort === name ? `-${name}` : name });
    if (view.current) view.current.scrollTop = 0;
  };
  return (
    <div
      class="table"
      ref={view}
      role="region"
      aria-label={props.label}
      tabIndex={0}
      style={props.height ? { maxHeight: `${props.height + ROW}px` } : {}}
      onScroll={(event) => props.height && setTop(event.currentTarget.scrollTop)}
    >
      <table aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {props.columns.map((column) => {
              const way = sort === column.name ? "ascending" : sort === `-${column.name}` ? "descending" : "none";
              return (
                <th
                  key={column.name}
                  scope="col"
                  class={column.number ? "number" : ""}
                  aria-sort={column.sort ? way : undefined}
                  title={column.help}
                >
                  {column.sort ? (
                    <button onClick={() => choose(column.name)}>
                      {column.head}
                      <span aria-hidden="true">{way === "ascending" ? " ▾" : way === "descending" ? " ▴" : ""}</span>
                    </button>
                  ) : (
                    column.head
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          <Gap rows={first} columns={props.columns.length} />
          {drawn.map((row, at) => (
            <tr key={props.rowKey(row)} aria-rowindex={first + at + 2}>
              {props.columns.map((column) => (
                <td key={column.name} class={column.number ? "number" : ""}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
          <Gap rows={rows.length - last} columns={props.columns.length} />
        </tbody>
      </table>
    </div>
  );
}

/** Room of rows that are not drawn. */
function Gap({ rows, columns }: { rows: number; columns: number }) {
  if (rows <= 0) return null;
  return (
    <tr aria-hidden="true" class="gap">
      <td colSpan={columns} style={{ height: `${rows * ROW}px` }} />
    </tr>
  );
}
