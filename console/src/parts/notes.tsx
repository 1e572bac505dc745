/** What stands where there is nothing to show, or not everything. */

import type { ComponentChildren } from "preact";
import type { Answer } from "../api/hooks";

export function Note({ children, bad }: { children: ComponentChildren; bad?: boolean }) {
  return (
    <p class={bad ? "note bad" : "note"} role={bad ? "alert" : undefined}>
      {children}
    </p>
  );
}

/** Warnings of an answer. */
export function Warnings({ texts }: { texts: readonly string[] | undefined }) {
  return <>{texts?.map((text) => <Note key={text}>{text}</Note>)}</>;
}

/** Draws an answer once it is there; an error stands above the last value. `title` is the heading of a page that has none before. */
export function Loaded<T>(props: { of: Answer<T>; title?: string; children: (value: T) => ComponentChildren }) {
  const { of, title, children } = props;
  return (
    <>
      {title !== undefined && of.value === undefined && <h1>{title}</h1>}
      {of.error && (
        <Note bad>
          {of.error.message} <button onClick={of.again}>Try again</button>
        </Note>
      )}
      {of.value !== undefined && children(of.value)}
      {of.waiting && of.value === undefined && (
        <p class="note" role="status">
          Loading…
        </p>
      )}
    </>
  );
}
