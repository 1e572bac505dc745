import { expect, test } from "vitest";
import { EventParser } from "./stream";

test("events are found wherever chunks end, and comments are none", () => {
  const text = ': keep\n\nid: 7-1\nevent: incident\ndata: {"a":\ndata: 1}\n\nevent: reset\r\ndata: {}\r\n\r\n';
  const whole = new EventParser().feed(text);
  expect(whole).toEqual([
    { id: "7-1", event: "incident", data: '{"a":\n1}' },
    { id: undefined, event: "reset", data: "{}" },
  ]);
  for (let at = 0; at < text.length; at += 1) {
    const parser = new EventParser();
    expect([...parser.feed(text.slice(0, at)), ...parser.feed(text.slice(at))], `cut at ${at}`).toEqual(whole);
  }
});

test("an event without its end is not given", () => {
  expect(new EventParser().feed("event: incident\ndata: {}")).toEqual([]);
});
