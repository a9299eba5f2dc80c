/** Records that are made and deleted on the page: a form in a dialog, and a button that asks first. Both show the call of the API. */

import { call } from './api.js'
import { Action, Button, Copyable, Dialog, Field, html, refusalOf, useState } from './ui.js'

/**
 * A field of a form. `choices`: values and names of a list; `lines`: rows of a text of several lines.
 * @typedef {{ name: string, label: string, hint?: string, value?: string, required?: boolean, choices?: readonly (readonly [string, string])[], lines?: number }} FormField
 */

/**
 * A button that opens a form, and makes a record from it. `body`: what is sent, from the values of the fields; `shown`: the member of the
 * answer that is shown this once; `secret`: the body is not kept among the calls.
 * @param {{ label: string, resource: string, path: string | ((values: Record<string, string>) => string), fields: readonly FormField[], body: (values: Record<string, string>) => unknown, done: () => Promise<unknown>, shown?: string, secret?: boolean, reason?: string | undefined }} props
 */
export function Create({ label, resource, path, fields, body, done, shown, secret = false, reason }) {
  const [isOpen, open] = useState(false)
  const [values, set] = useState(
    /** @type {Record<string, string>} */ (
      Object.fromEntries(fields.map(({ name, value = '', choices }) => [name, value || (choices?.[0]?.[0] ?? '')]))
    )
  )
  const [once, show] = useState(/** @type {string | undefined} */ (undefined))
  const missing = fields.find(({ name, required }) => required === true && (values[name] ?? '').trim() === '')
  const make = async () => {
    const at = typeof path === 'string' ? path : path(values)
    const made = await call('POST', at, body(values), { secret })
    if (shown !== undefined) show(made[shown])
    await done()
  }
  return html`<${Button} label=${label} reason=${refusalOf(`${resource}.create`) ?? reason} onClick=${() => open(true)} />
    ${
      isOpen
        ? html`<${Dialog} title=${label} onClose=${() => open(false)}>
            ${fields.map((field) => html`<${FormInput} key=${field.name} field=${field} value=${values[field.name] ?? ''} onInput=${(/** @type {string} */ value) => set({ ...values, [field.name]: value })} />`)}
            <${Action} label="Create" tone="primary" done="Created" run=${make} reason=${missing === undefined ? undefined : `${missing.label} is missing.`} />
            ${once === undefined ? null : html`<p>It is shown this once:</p><${Copyable} text=${once} />`}
          <//>`
        : null
    }`
}

/** @param {{ field: FormField, value: string, onInput: (value: string) => void }} props */
function FormInput({ field: { name, label, hint, choices, lines }, value, onInput }) {
  const input = (/** @type {any} */ event) => onInput(event.target.value)
  if (choices !== undefined)
    return html`<${Field} label=${label} hint=${hint}>
      <select name=${name} value=${value} onChange=${input}>
        ${choices.map(([id, title]) => html`<option value=${id} selected=${id === value}>${title}</option>`)}
      </select>
    <//>`
  return html`<${Field} label=${label} hint=${hint}>
    ${
      lines === undefined
        ? html`<input name=${name} value=${value} autocomplete="off" spellcheck=${false} onInput=${input} />`
        : html`<textarea name=${name} rows=${lines} spellcheck=${false} value=${value} onInput=${input}></textarea>`
    }
  <//>`
}

/**
 * A button that deletes a record. One that a site file declares is deleted there.
 * @param {{ resource: string, path: string, name: string, declared?: { file: string, line: number } | undefined, done: () => Promise<unknown> }} props
 */
export function Delete({ resource, path, name, declared, done }) {
  const reason =
    declared === undefined
      ? refusalOf(`${resource}.delete`)
      : `${declared.file}:${declared.line} declares it, and it is deleted there.`
  const remove = async () => {
    await call('DELETE', path)
    await done()
  }
  return html`<${Action} label="Delete" tone="danger" done="Deleted" reason=${reason} confirm=${`${name} is deleted.`} run=${remove} />`
}
