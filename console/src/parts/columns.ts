/** Columns of a table, and the order of its rows. */

import type { ComponentChildren } from "preact";

export interface Column<Row> {
  readonly name: string;
  /** Heading; its title explains it. */
  readonly head: string;
  readonly help?: string;
  readonly cell: (row: Row) => ComponentChildren;
  /** Value to sort by; undefined stands last. A column without it does not sort. */
  readonly sort?: (row: Row) => number | string | undefined;
  /** Numbers stand right. */
  readonly number?: boolean;
}

/** Made once: a collator costs more than ten thousand comparisons. */
const natural = new Intl.Collator(undefined, { numeric: true });

/** Order of two values; numbers fall, texts rise. */
function order(a: number | string | undefined, b: number | string | undefined): number {
  if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined);
  if (typeof a === "number" && typeof b === "number") return b - a;
  return natural.compare(String(a), String(b));
}

/** Rows in the order that `sort` of the URL names: a column, with `-` in front the other way round. */
export function sorted<Row>(rows: readonly Row[], columns: readonly Column<Row>[], sort: string): readonly Row[] {
  const backwards = sort.startsWith("-");
  const by = columns.find((column) => column.name === sort.replace(/^-/, ""))?.sort;
  if (!by) return rows;
  const keyed = rows.map((row) => ({ row, key: by(row) }));
  keyed.sort((a, b) => {
    const way = a.key === undefined || b.key === undefined ? 1 : backwards ? -1 : 1;
    return order(a.key, b.key) * way;
  });
  return keyed.map(({ row }) => row);
}
