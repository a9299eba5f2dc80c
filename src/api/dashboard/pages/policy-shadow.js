/** A shadow: the edited policy beside the one that serves, on what clients really send, without effects. */

import { call } from './api.js'
import { Action, Badge, Field, html, Problem, refusalOf, Table, useLoad, useRef, useState } from './ui.js'

const EVERY = 1_000

/** @param {{ edit: import('./policy-trials.js').Edit }} props */
export function PolicyShadow({ edit: { place, text, live } }) {
  const [share, setShare] = useState('1')
  const [duration, setDuration] = useState('10m')
  const [budget, setBudget] = useState('2ms')
  const [running, follow] = useState(/** @type {string | undefined} */ (undefined))
  const begin = async () => {
    const made = await call('POST', '/shadows', {
      name: `Dashboard: ${place.title}`.slice(0, 100),
      policies: [{ route: place.route, text }],
      share: Number(share),
      duration,
      budget
    })
    follow(made.id)
  }
  const reason =
    refusalOf('shadow') ?? (text === live ? 'Nothing is changed: a shadow would decide all alike.' : undefined)
  return html`<div>
    <p>It decides what clients send meanwhile, has no effects, and counts where it decides otherwise.</p>
    <div class="filters">
      <${Field} label="Share of clients"><input type="number" min="0.01" max="1" step="0.01" value=${share} onInput=${(/** @type {any} */ event) => setShare(event.target.value)} /><//>
      <${Field} label="Duration"><input size="6" value=${duration} onInput=${(/** @type {any} */ event) => setDuration(event.target.value)} /><//>
      <${Field} label="Work for one request">
        <input size="6" value=${budget} onInput=${(/** @type {any} */ event) => setBudget(event.target.value)} />
      <//>
      <${Action} label="Begin" tone="primary" run=${begin} reason=${reason} done="" />
    </div>
    ${running === undefined ? null : html`<${Matrix} id=${running} />`}
  </div>`
}

/** @param {{ id: string }} props */
function Matrix({ id }) {
  /** Last result of a shadow that was ended here; the API no longer has it. */
  const last = useRef(/** @type {any} */ (undefined))
  const [ended, setEnded] = useState(false)
  const load = async () => {
    if (!ended) last.current = await call('GET', `/shadows/${id}`)
    return last.current
  }
  const { data, error } = useLoad(load, [id, ended], { every: EVERY })
  if (data === undefined) return html`<${Problem} error=${error} />`
  const { counts, matrix } = data
  const state = ended ? 'ended' : data.state
  const why = ended ? 'you have ended it' : data.ended_reason
  const end = async () => {
    await call('DELETE', `/shadows/${id}`)
    setEnded(true)
  }
  return html`<div>
    <p role="status">
      <${Badge} tone=${counts.changed > 0 ? 'warn' : 'good'}>${counts.changed} decided otherwise<//> of ${counts.judged} judged, ${counts.not_judged} not
      judged${counts.over_budget > 0 ? `, ${counts.over_budget} took too much work` : ''}. ${state === 'running' ? 'It runs.' : `Ended: ${why}.`}
    </p>
    <${Action} label="End" run=${end} reason=${state === 'running' ? undefined : 'It has ended.'} done="Ended" />
    <${Table}
      label="Which decisions met"
      rows=${matrix}
      id=${(/** @type {any} */ row) => JSON.stringify([row.old, row.new, row.differs])}
      tone=${(/** @type {any} */ row) => (row.differs.length > 0 ? 'warn' : undefined)}
      empty=${html`<p>No request has come yet.</p>`}
      columns=${[
        { title: 'What serves', cell: (/** @type {any} */ row) => decisionText(row.old) },
        { title: 'The shadow', cell: (/** @type {any} */ row) => decisionText(row.new) },
        { title: 'Differs', cell: (/** @type {any} */ row) => row.differs.join(', ') || 'alike' },
        { title: 'Requests', numeric: true, cell: (/** @type {any} */ row) => row.count },
        {
          title: 'Such as',
          cell: (/** @type {any} */ row) =>
            row.differs.length === 0
              ? ''
              : row.examples
                  .slice(0, 1)
                  .map(
                    (/** @type {any} */ { request }) =>
                      `${request.method} ${request.host}${request.path} from ${request.client_ip}`
                  )
        }
      ]}
    />
  </div>`
}

/** @param {any} decision */
function decisionText({ decision, status, code, by }) {
  return [decision, status ?? '', code ?? '', by === null ? '' : `by ${by.rule || by.action}`]
    .filter((part) => part !== '')
    .join(' ')
}
