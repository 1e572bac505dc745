import { expect, test } from "vitest";
import { sorted, type Column } from "./columns";

interface Row {
  readonly name: string;
  readonly value?: number;
}

const COLUMNS: readonly Column<Row>[] = [
  { name: "name", head: "Name", cell: (row) => row.name, sort: (row) => row.name },
  { name: "value", head: "Value", cell: (row) => row.value, sort: (row) => row.value },
  { name: "plain", head: "Plain", cell: () => "" },
];
const ROWS: readonly Row[] = [{ name: "gpu-10", value: 1 }, { name: "gpu-9" }, { name: "gpu-1", value: 5 }];
const names = (sort: string) => sorted(ROWS, COLUMNS, sort).map((row) => row.name);

test("texts rise by number, numbers fall, and a minus turns them around", () => {
  expect(names("name")).toEqual(["gpu-1", "gpu-9", "gpu-10"]);
  expect(names("-name")).toEqual(["gpu-10", "gpu-9", "gpu-1"]);
  expect(names("value")).toEqual(["gpu-1", "gpu-10", "gpu-9"]);
});

test("rows without a value stand last either way", () => {
  expect(names("-value")).toEqual(["gpu-10", "gpu-1", "gpu-9"]);
});

test("an unknown column changes nothing", () => {
  expect(names("other")).toEqual(ROWS.map((row) => row.name));
  expect(names("plain")).toEqual(ROWS.map((row) => row.name));
});
