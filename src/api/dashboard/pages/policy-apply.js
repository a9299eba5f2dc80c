/** From an edit to what serves, and back: the difference, a guarded write, and earlier revisions. */

import { call } from './api.js'
import { Difference, GuardState } from './history.js'
import { Action, Badge, Copyable, Field, html, Problem, refusalOf, Table, useLoad, useState, When } from './ui.js'

const EVERY = 1_000
/** Lines beyond which a difference is not worked out line by line. */
const MOST_LINES = 3_000

/** @param {{ edit: import('./policy-trials.js').Edit }} props */
export function PolicyDifference({ edit: { text, live } }) {
  if (text === live) return html`<p>Nothing is changed.</p>`
  return html`<${Difference} text=${differenceOf(live.split('\n'), text.split('\n')).join('\n')} />`
}

/**
 * The lines of both texts: those that only one has begin with - or +. The longest common subsequence of what lies between the
 * common beginning and the common end.
 * @param {readonly string[]} before
 * @param {readonly string[]} after
 */
function differenceOf(before, after) {
  let start = 0
  while (start < before.length && start < after.length && before[start] === after[start]) start++
  let end = 0
  while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) end++
  const old = before.slice(start, before.length - end)
  const now = after.slice(start, after.length - end)
  const same = (/** @type {readonly string[]} */ lines) => lines.map((line) => `  ${line}`)
  const middle =
    old.length + now.length > MOST_LINES
      ? [...old.map((line) => `- ${line}`), ...now.map((line) => `+ ${line}`)]
      : changes(old, now)
  return [...same(before.slice(0, start)), ...middle, ...same(before.slice(before.length - end))]
}

/**
 * @param {readonly string[]} old
 * @param {readonly string[]} now
 */
function changes(old, now) {
  const width = now.length + 1
  const lengths = new Uint16Array((old.length + 1) * width)
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      lengths[i * width + j] =
        old[i] === now[j]
          ? (lengths[(i + 1) * width + j + 1] ?? 0) + 1
          : Math.max(lengths[(i + 1) * width + j] ?? 0, lengths[i * width + j + 1] ?? 0)
    }
  }
  const lines = []
  let [i, j] = [0, 0]
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      lines.push(`  ${old[i]}`)
      i++
      j++
    } else if (
      j === now.length ||
      (i < old.length && (lengths[(i + 1) * width + j] ?? 0) >= (lengths[i * width + j + 1] ?? 0))
    ) {
      lines.push(`- ${old[i++]}`)
    } else lines.push(`+ ${now[j++]}`)
  }
  return lines
}

/**
 * @param {{ edit: import('./policy-trials.js').Edit, valid: boolean | undefined, reload: () => Promise<void> }} props
 */
export function ApplyPolicy({ edit: { place, text, live, reason }, valid, reload }) {
  const [guard, set] = useState({ on: true, bake: '30s', error: '2', refusal: '5' })
  const [dry, show] = useState(/** @type {any} */ (undefined))
  const [written, note] = useState(/** @type {number | undefined} */ (undefined))
  const path = `${place.path}/traffic_policy`
  const body = { enabled: place.policy?.enabled ?? true, value: text }
  const conditions = `bake=${guard.bake}; error-rate=+${guard.error}%; refusal-rate=+${guard.refusal}%`
  const field = (/** @type {'bake' | 'error' | 'refusal'} */ name) => ({
    size: 4,
    value: guard[name],
    disabled: !guard.on,
    onInput: (/** @type {any} */ event) => set({ ...guard, [name]: event.target.value })
  })
  const apply = async () => {
    const before = await newestRevision()
    await call('PUT', path, body, guard.on ? { headers: { guard: conditions } } : {})
    const after = await newestRevision()
    note(after === before ? undefined : after)
    await reload()
  }
  const nothing = text === live ? 'Nothing is changed.' : valid === false ? 'It has errors: see Check.' : undefined
  return html`<div>
    <fieldset>
      <legend>Guard</legend>
      <label><input type="checkbox" checked=${guard.on} onChange=${() => set({ ...guard, on: !guard.on })} /> Take it back when traffic fares worse</label>
      <div class="filters">
        <${Field} label="Watched for"><input ...${field('bake')} /><//>
        <${Field} label="Errors, + %"><input ...${field('error')} /><//>
        <${Field} label="Refusals, + %"><input ...${field('refusal')} /><//>
      </div>
    </fieldset>
    <div class="actions">
      <${Action} label="Dry run" reason=${reason ?? nothing} run=${async () => show(await call('PUT', `${path}?dry_run=true`, body))} done="It would be accepted." />
      <${Action} label="Apply" tone="primary" reason=${reason ?? nothing} run=${apply} done="It serves." />
    </div>
    ${dry === undefined ? null : html`<p role="status">It changes ${dry.difference.put.length + dry.difference.drop.length} parts of what serves.</p>`}
    ${(dry?.warnings ?? []).map((/** @type {any} */ one) => html`<p class="note">line ${one.line}: ${one.message}</p>`)}
    ${written === undefined ? null : html`<${Written} id=${written} reload=${reload} />`}
  </div>`
}

/**
 * The way to change a policy that a file or an agent holds.
 * @param {{ edit: import('./policy-trials.js').Edit }} props
 */
export function EditFile({ edit: { place, text, live } }) {
  return html`<div>
    <p>${place.fixed}</p>
    ${
      text === live
        ? html`<p>Nothing is changed here yet. Edit the text, try it, and take it from here into the file.</p>`
        : html`<p>The edited text:</p><${Copyable} text=${text} label="Copy the text" />`
    }
    <p class="small">
      A process that was started with the file serves it as soon as it is saved. Where <code>sluice apply</code> has sent the file, send it again.
    </p>
  </div>`
}

/** @returns {Promise<number | undefined>} */
async function newestRevision() {
  const { revisions } = await call('GET', '/revisions?limit=1')
  return revisions[0]?.id
}

/**
 * Result of a write, and how to revert it.
 * @param {{ id: number, reload: () => Promise<void> }} props
 */
function Written({ id, reload }) {
  const { data, error, reload: again } = useLoad(() => call('GET', `/revisions/${id}`), [id], { every: EVERY })
  const revert = async () => {
    await call('POST', `/revisions/${id}/revert`)
    await Promise.all([again(), reload()])
  }
  return html`<div class="panel">
    <p role="status">
      Revision <a href=${`#/history/${id}`}>${id}</a> serves.
      ${data?.guard ? html` Guard: <${GuardState} guard=${data.guard} />${data.guard.by ? html`, by <a href=${`#/history/${data.guard.by.id}`}>revision ${data.guard.by.id}</a>` : null}` : null}
    </p>
    <${Problem} error=${error} />
    <${Action} label="Revert" tone="danger" run=${revert} done="The policy of before serves." />
  </div>`
}

/**
 * Revisions that changed this policy, with the text that each left.
 * @param {{ edit: import('./policy-trials.js').Edit, reload: () => Promise<void>, onText: (text: string) => void }} props
 */
export function PolicyHistory({ edit: { place, reason }, reload, onText }) {
  const list = useLoad(() => changesOf(place.id), [place.id])
  const revert = async (/** @type {number} */ id) => {
    await call('POST', `/revisions/${id}/revert`)
    await Promise.all([list.reload(), reload()])
  }
  return html`<div>
    <${Problem} error=${list.error} />
    ${list.data === undefined && list.error === undefined ? html`<p role="status">Loading …</p>` : null}
    ${
      list.data === undefined
        ? null
        : html`<${Table}
            label="Revisions that changed this policy"
            rows=${list.data}
            id=${(/** @type {any} */ row) => String(row.id)}
            place=${(/** @type {any} */ row) => `history/${row.id}`}
            empty=${html`<p>None of the last ${LOOKED_AT} revisions changed it.</p>`}
            columns=${[
              { title: 'Revision', cell: (/** @type {any} */ row) => row.id },
              { title: 'At', cell: (/** @type {any} */ row) => html`<${When} at=${row.created_at} />` },
              { title: 'Who', cell: (/** @type {any} */ row) => row.principal?.subject ?? 'Sluice' },
              { title: 'Guard', cell: (/** @type {any} */ row) => html`<${GuardState} guard=${row.guard} />` },
              {
                title: 'Commands',
                cell: (/** @type {any} */ row) => html`<div class="actions">
                  ${row.before === undefined ? null : html`<button type="button" onClick=${() => onText(row.before)}>Edit the text of before</button>`}
                  <${Action}
                    label="Revert"
                    reason=${reason ?? refusalOf(`${place.resource}.update`)}
                    confirm=${`What revision ${row.id} changed is changed back, in a write of its own.`}
                    run=${() => revert(row.id)}
                  />
                </div>`
              }
            ]}
          />`
    }
    ${reason === undefined ? null : html`<${Badge}>${reason}<//>`}
  </div>`
}

/** Revisions that are looked at for changes of one policy. */
const LOOKED_AT = 30

/** @param {string} id of the route or TCP edge */
async function changesOf(id) {
  const { revisions } = await call('GET', `/revisions?limit=${LOOKED_AT}`)
  const found = await Promise.all(
    revisions.map(async (/** @type {any} */ revision) => {
      const { changes } = await call('GET', `/revisions/${revision.id}/diff`)
      const change = changes.find((/** @type {any} */ one) => one.id === id && JSON.stringify(one).includes('policy'))
      if (change === undefined) return []
      const before = change.fields?.traffic_policy?.before?.value
      return [{ ...revision, before: typeof before === 'string' ? before : undefined }]
    })
  )
  return found.flat()
}
