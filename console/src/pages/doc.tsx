/** A page of the documentation: a runbook, or how verdicts are reached. */

import type { ComponentChildren } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { getText } from "../api/client";
import { useAnswer } from "../api/hooks";
import { parse, resolve, type Block, type Inline } from "../docs/markdown";
import { Loaded } from "../parts/notes";
import type { PageProps } from "../pages";
import { href } from "../router";

export default function DocPage({ of }: PageProps) {
  const page = of["page"] ?? "";
  const answer = useAnswer((signal) => getText(`/assets/docs/${page}`, {}, signal), [page]);
  return (
    <Loaded of={answer} title={page}>
      {(text) => <Content page={page} text={text} />}
    </Loaded>
  );
}

function Content({ page, text }: { page: string; text: string }) {
  const blocks = useMemo(() => parse(text), [text]);
  useEffect(() => {
    const id = decodeURIComponent(window.location.hash.slice(1));
    if (id) document.getElementById(id)?.scrollIntoView();
  }, [blocks]);
  return (
    <article class="doc">
      <Blocks of={blocks} page={page} />
      {page !== "runbooks/README.md" && (
        <p class="soft">
          <a href={href("/docs/runbooks/README.md")}>All runbooks</a>
        </p>
      )}
    </article>
  );
}

function Blocks({ of, page }: { of: readonly Block[]; page: string }) {
  return (
    <>
      {of.map((block, n) => (
        <OneBlock key={n} of={block} at={n} page={page} />
      ))}
    </>
  );
}

/** `at` is the block's place among those beside it. */
function OneBlock({ of, at, page }: { of: Block; at: number; page: string }): ComponentChildren {
  switch (of.type) {
    case "heading": {
      const Heading = `h${of.level}` as "h1";
      return (
        <Heading id={of.id}>
          <Text of={of.inside} page={page} />
        </Heading>
      );
    }
    case "paragraph":
      return (
        <p>
          <Text of={of.inside} page={page} />
        </p>
      );
    case "code":
      return (
        <pre tabIndex={0}>
          <code>{of.text}</code>
        </pre>
      );
    case "list": {
      const List = of.ordered ? "ol" : "ul";
      return (
        <List>
          {of.items.map((item, n) => (
            <li key={n}>
              <Blocks of={item} page={page} />
            </li>
          ))}
        </List>
      );
    }
    case "table":
      return (
        <div class="table" role="region" aria-label={`Table ${at + 1}`} tabIndex={0}>
          <table>
            <thead>
              <tr>
                {of.head.map((cell, n) =>
                  cell.length > 0 ? (
                    <th key={n} scope="col">
                      <Text of={cell} page={page} />
                    </th>
                  ) : (
                    <td key={n} />
                  ),
                )}
              </tr>
            </thead>
            <tbody>
              {of.rows.map((row, n) => (
                <tr key={n}>
                  {row.map((cell, m) => (
                    <td key={m}>
                      <Text of={cell} page={page} />
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
  }
}

function Text({ of, page }: { of: readonly Inline[]; page: string }) {
  return (
    <>
      {of.map((part, n) => (
        <OnePart key={n} of={part} page={page} />
      ))}
    </>
  );
}

function OnePart({ of, page }: { of: Inline; page: string }): ComponentChildren {
  switch (of.type) {
    case "text":
      return of.text;
    case "code":
      return <code>{of.text}</code>;
    case "strong":
      return (
        <strong>
          <Text of={of.inside} page={page} />
        </strong>
      );
    case "em":
      return (
        <em>
          <Text of={of.inside} page={page} />
        </em>
      );
    case "link": {
      const to = resolve(page, of.to);
      const inside = <Text of={of.inside} page={page} />;
      // Pages that the console does not have stay words.
      return to ? <a href={href(`/docs/${to.page}`) + to.hash}>{inside}</a> : inside;
    }
  }
}
