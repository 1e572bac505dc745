import { useState } from "preact/hooks";
import { postJson } from "../../api/client";
import { KINDS, type Incident } from "../../api/types";
import { clock, kindWords, nsToMs } from "../../lib/format";
import { may } from "../../session";
import { Note } from "../../parts/notes";

/** What an operator may do: a row for each action. */
const ACTIONS = [
  { path: "acknowledge", word: "Acknowledge", help: "Tells others that somebody looks after it; reminders stop." },
  { path: "note", word: "Add note", help: "Adds a note to the history, and changes nothing else." },
  { path: "silence", word: "Silence", help: "Sends no notifications for a time; the incident stays listed." },
  { path: "reclassify", word: "Reclassify", help: "Corrects the kind. The detectors' verdict is kept beside it." },
] as const;
type Action = (typeof ACTIONS)[number];

const SILENCES = ["30m", "2h", "8h", "1d", "7d"] as const;

export function Actions({ incident, changed }: { incident: Incident; changed: () => void }) {
  const [open, setOpen] = useState<Action>();
  if (!may("write")) return <p class="soft actions">Acknowledging, adding notes, silencing and reclassifying need the role write.</p>;
  return (
    <section class="actions" aria-label="Actions">
      {incident.silenced && <p class="soft">Silenced until {clock(nsToMs(incident.silenced.until_ns))}.</p>}
      <div class="buttons">
        {ACTIONS.map((action) => (
          <button
            key={action.path}
            title={action.help}
            aria-expanded={open === action}
            onClick={() => setOpen(open === action ? undefined : action)}
          >
            {action.word}
          </button>
        ))}
      </div>
      {open && (
        <ActionForm
          key={open.path}
          action={open}
          incident={incident}
          done={() => {
            setOpen(undefined);
            changed();
          }}
        />
      )}
    </section>
  );
}

/** The last name that was given here, so that it is typed once. */
const NAME = "fabriclens.operator";

function ActionForm({ action, incident, done }: { action: Action; incident: Incident; done: () => void }) {
  const [by, setBy] = useState(localStorage.getItem(NAME) ?? "");
  const [note, setNote] = useState("");
  const [time, setTime] = useState<string>("2h");
  const [kind, setKind] = useState("not_a_problem");
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    localStorage.setItem(NAME, by);
    const more = action.path === "silence" ? { for: time } : action.path === "reclassify" ? { kind } : {};
    try {
      await postJson(`/api/v1/incidents/${encodeURIComponent(incident.id)}/${action.path}`, { by, note, ...more });
      done();
    } catch (failure) {
      setError(failure instanceof Error ? failure.message : String(failure));
      setBusy(false);
    }
  };
  return (
    <form class="action" onSubmit={(event) => void submit(event)}>
      <p class="soft">{action.help}</p>
      {action.path === "silence" && (
        <label>
          For
          <select value={time} onChange={(event) => setTime(event.currentTarget.value)}>
            {SILENCES.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
      )}
      {action.path === "reclassify" && (
        <label>
          As
          <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
            <option value="not_a_problem">Not a problem</option>
            {KINDS.map((one) => (
              <option key={one} value={one}>
                {kindWords(one)}
              </option>
            ))}
          </select>
        </label>
      )}
      <label>
        Your name
        <input value={by} maxLength={200} autocomplete="username" onInput={(event) => setBy(event.currentTarget.value)} />
      </label>
      <label>
        Note
        <textarea value={note} rows={2} maxLength={2000} required={action.path === "note"} onInput={(event) => setNote(event.currentTarget.value)} />
      </label>
      <button disabled={busy}>{action.word}</button>
      {error && <Note bad>{error}</Note>}
    </form>
  );
}
