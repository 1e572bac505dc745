/** Asks for a token. */

import { useState } from "preact/hooks";
import type { Session } from "./api/types";
import { setToken } from "./session";
import { Note } from "./parts/notes";

export function SignIn({ session, refused }: { session: Session; refused: boolean }) {
  const [value, setValue] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    setToken(value.trim());
  };
  return (
    <section class="signin">
      <h1>Sign in</h1>
      <p>This collector shows its data to callers with the role read. Give a token that has it.</p>
      <form onSubmit={submit}>
        <label>
          Token
          <input
            type="password"
            autocomplete="current-password"
            value={value}
            onInput={(event) => setValue(event.currentTarget.value)}
          />
        </label>
        <button disabled={value.trim() === ""}>Sign in</button>
      </form>
      {refused && (
        <Note bad>
          {session.caller
            ? `${session.caller} is known, but lacks the role read.`
            : "The collector does not know this token, or it has expired."}
        </Note>
      )}
      <p class="soft">
        The token is kept by this browser tab until it is closed (sessionStorage), and sent to this collector only. An
        administrator makes one with <code>fabriclens token new NAME --role read</code>.
      </p>
    </section>
  );
}
