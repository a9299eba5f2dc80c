/** History: every write, what it changed, and the way back. */

import { call } from './api.js'
import {
  Action,
  Badge,
  Empty,
  Facts,
  html,
  Listed,
  Page,
  Problem,
  refusalOf,
  Table,
  useList,
  useLoad,
  When
} from './ui.js'

const EVERY = 5_000
const TONES = /** @type {Record<string, string>} */ ({
  baking: 'info',
  passed: 'good',
  inconclusive: 'warn',
  broken: 'bad',
  conflict: 'bad',
  superseded: 'warn'
})

/**
 * The page; `#/history/{revision}` shows one.
 * @param {{ path: string[] }} props
 */
export default function HistoryPage({ path: [open] }) {
  return open === undefined ? html`<${Revisions} />` : html`<${Revision} id=${open} />`
}

function Revisions() {
  const list = useList('/revisions', 'revisions', { every: EVERY })
  return html`<${Page} title="History" lead="All configuration changes, newest first. Each can be reverted.">
    <${Listed} list=${list}>
      <${Table}
        label="Revisions"
        rows=${list.rows ?? []}
        id=${(/** @type {any} */ row) => String(row.id)}
        place=${(/** @type {any} */ row) => `history/${row.id}`}
        tone=${(/** @type {any} */ row) => (row.guard?.state === 'broken' ? 'bad' : undefined)}
        empty=${html`<${Empty} title="No changes yet">Changes made by the API, a site file or the dashboard are listed here.<//>`}
        columns=${[
          { title: 'Revision', cell: (/** @type {any} */ row) => row.id },
          { title: 'At', cell: (/** @type {any} */ row) => html`<${When} at=${row.created_at} />` },
          { title: 'Who', cell: (/** @type {any} */ row) => row.principal?.subject ?? 'Sluice' },
          { title: 'Changed', cell: changesText },
          { title: 'Guard', cell: (/** @type {any} */ row) => html`<${GuardState} guard=${row.guard} />` },
          {
            title: 'Why',
            cell: (/** @type {any} */ row) =>
              row.reverts ? `takes back ${row.reverts.id}${row.reason ? `: ${row.reason}` : ''}` : (row.reason ?? '')
          }
        ]}
      />
    <//>
  <//>`
}

/** @param {any} row */
function changesText({ created, updated, deleted }) {
  const parts = [
    [created, 'created'],
    [updated, 'updated'],
    [deleted, 'deleted']
  ].filter(([count]) => count > 0)
  return parts.map(([count, what]) => `${count} ${what}`).join(', ')
}

/**
 * Result of the guard of a write.
 * @param {{ guard: any }} props
 */
export function GuardState({ guard }) {
  if (!guard) return html`<span>–</span>`
  return html`<${Badge} tone=${TONES[guard.state]} title=${guard.conditions}>${guard.state}<//>${guard.reason ? html` ${guard.reason}` : ''}`
}

/** @param {{ id: string }} props */
function Revision({ id }) {
  const revision = useLoad(() => call('GET', `/revisions/${id}`), [id], { every: EVERY })
  const text = useLoad(
    () => call('GET', `/revisions/${id}/diff`, undefined, { headers: { accept: 'text/plain' } }),
    [id]
  )
  const changed = useLoad(() => call('GET', `/revisions/${id}/diff`), [id])
  const { data } = revision
  const revert = async () => {
    await call('POST', `/revisions/${id}/revert`)
    await revision.reload()
  }
  const check = () => call('POST', `/revisions/${id}/revert?dry_run=true`)
  const reason = changed.data === undefined ? 'Loading the changes …' : refusalOfRevert(changed.data.changes)
  return html`<${Page}
    title=${`Revision ${id}`}
    lead=${html`<a href="#/history">All revisions</a>`}
    actions=${html`<${Action} label="Check" run=${check} reason=${reason} done="It can be reverted." />
      <${Action}
        label="Revert"
        tone="danger"
        reason=${reason}
        confirm=${`Reverts the changes of revision ${id} as a new revision. The revert is refused if later revisions changed the same fields.`}
        run=${revert}
      />`}
  >
    <${Problem} error=${revision.error} />
    ${
      data === undefined
        ? null
        : html`<div class="panel">
            <${Facts}
              entries=${[
                ['Written', html`<${When} at=${data.created_at} />`],
                ['By', data.principal?.subject ?? 'Sluice'],
                ['Changed', changesText(data)],
                ['Guard', data.guard ? html`<${GuardState} guard=${data.guard} />` : undefined],
                [
                  'Takes back',
                  data.reverts
                    ? html`<a href=${`#/history/${data.reverts.id}`}>revision ${data.reverts.id}</a>`
                    : undefined
                ],
                ['Why', data.reason ?? undefined],
                ['Operation', html`<code>${data.operation_id}</code>`]
              ]}
            />
          </div>`
    }
    <h2>What it changed</h2>
    <${Problem} error=${text.error ?? changed.error} />
    ${text.data === undefined ? null : html`<${Difference} text=${text.data} inner=${DIFF_OF_FIELD} />`}
  <//>`
}

const OPPOSITE = /** @type {Record<string, string>} */ ({ created: 'delete', updated: 'update', deleted: 'create' })

/**
 * Why the caller may not revert these changes; undefined: they may.
 * @param {readonly { resource: string, change: string }[]} changes
 */
function refusalOfRevert(changes) {
  const refusals = changes.map(({ resource, change }) =>
    refusalOf(resource === 'site_file' ? resource : `${resource}.${OPPOSITE[change]}`)
  )
  return refusals.find((refusal) => refusal !== undefined)
}

/** Before each line of a difference within a field of several lines. */
const DIFF_OF_FIELD = '      '

/**
 * A difference in text, line by line. `inner`: lines that begin with it are marked too.
 * @param {{ text: string, inner?: string }} props
 */
export function Difference({ text, inner = '' }) {
  const toneOf = (/** @type {string} */ line) => {
    const begins = (/** @type {string} */ sign) => line.startsWith(sign) || line.startsWith(inner + sign)
    return begins('+') ? 'added' : begins('-') ? 'removed' : ''
  }
  return html`<pre class="difference panel" tabindex="0">${text.split('\n').map((line) => html`<span class=${toneOf(line)}>${line}${'\n'}</span>`)}</pre>`
}
