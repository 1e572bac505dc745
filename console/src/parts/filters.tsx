/** Fields that filter a list; their values are parameters of the URL. */

import { setParams, usePlace } from "../router";

export function SelectFilter(props: {
  label: string;
  name: string;
  options: readonly (readonly [value: string, text: string])[];
}) {
  const value = usePlace().params.get(props.name) ?? "";
  return (
    <label class="filter">
      {props.label}
      <select value={value} onChange={(event) => setParams({ [props.name]: event.currentTarget.value })}>
        {props.options.map(([option, text]) => (
          <option key={option} value={option}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

export function TextFilter(props: { label: string; name: string; placeholder?: string }) {
  const value = usePlace().params.get(props.name) ?? "";
  return (
    <label class="filter">
      {props.label}
      <input
        type="search"
        value={value}
        placeholder={props.placeholder ?? ""}
        spellcheck={false}
        onInput={(event) => setParams({ [props.name]: event.currentTarget.value })}
      />
    </label>
  );
}
