/** Limits: what they decide, whom they refuse, and buckets that are emptied. */

import { call } from 'dashboard/api.js'
import { Chart } from 'dashboard/chart.js'
import {
  Action,
  Badge,
  Empty,
  Facts,
  Field,
  html,
  Page,
  Problem,
  refusalOf,
  Table,
  useLoad,
  useState,
  When
} from 'dashboard/ui.js'

const EVERY = 2_000
const PAGE = 100
const MOST = 500
const POLICY = `on_http_request:
  - name: limited
    actions:
      - type: rate-limit
        config:
          name: per client
          algorithm: sliding_window
          capacity: 60
          rate: 60s
          bucket_key: [conn.client_ip]`

/** @typedef {import('./answers.js').LimitSummary} Limit */

/**
 * The page; `#/limits/{limit}` shows one.
 * @param {{ path: string[] }} props
 */
export default function LimitsPage({ path: [open] }) {
  const reason = refusalOf('limits')
  if (reason !== undefined)
    return html`<${Page} title="Limits"><p class="note">${reason} Bucket keys identify clients.</p><//>`
  return open === undefined ? html`<${List} />` : html`<${One} key=${open} id=${open} />`
}

function List() {
  const [text, search] = useState('')
  const [most, show] = useState(PAGE)
  const load = async () => {
    const query = new URLSearchParams({ order: 'refused', limit: String(PAGE), ...(text === '' ? {} : { text }) })
    /** @type {Limit[]} */
    const rows = []
    for (let before = ''; ; ) {
      const found = await call('GET', `/limits?${query}${before}`)
      rows.push(...found.limits)
      if (found.next_page_uri === null || rows.length >= most) return { rows, total: found.total }
      before = `&before_id=${rows.at(-1)?.id}`
    }
  }
  const { data, error } = useLoad(load, [text, most], { every: EVERY })
  const rows = data?.rows ?? []
  return html`<${Page} title="Limits" lead="Rate limits of this process, those that currently reject most first.">
    <div class="filters">
      <${Field} label="Search">
        <input type="search" value=${text} maxlength="200" placeholder="name, host, rule" onInput=${(/** @type {any} */ event) => search(event.target.value)} />
      <//>
    </div>
    <${Problem} error=${error} />
    ${
      data === undefined
        ? error === undefined && html`<p class="wait" role="status">Loading …</p>`
        : html`<${Table}
            label="Limits"
            rows=${rows}
            id=${(/** @type {Limit} */ row) => row.id}
            place=${(/** @type {Limit} */ row) => `limits/${row.id}`}
            tone=${(/** @type {Limit} */ row) => (row.recent.refused > 0 && row.enforce ? 'warn' : undefined)}
            empty=${
              text === ''
                ? html`<${Empty} title="No rate limits" command=${POLICY}>Add an action <code>rate-limit</code> to a policy, for example one for each client address:<//>`
                : html`<p>No limit matches this name, owner or rule.</p>`
            }
            columns=${[
              { title: 'Limit', cell: (/** @type {Limit} */ row) => row.name },
              { title: 'Owner', cell: (/** @type {Limit} */ row) => row.owner.name },
              { title: 'Rule', cell: (/** @type {Limit} */ row) => row.rule },
              {
                title: 'Capacity',
                cell: (/** @type {Limit} */ row) =>
                  html`${capacityOf(row)} in ${row.rate}${row.scope === 'cluster' ? ', over the cluster' : ''}`
              },
              { title: 'Mode', cell: (/** @type {Limit} */ row) => html`<${Mode} limit=${row} />` },
              { title: 'Buckets in use', numeric: true, cell: (/** @type {Limit} */ row) => row.buckets },
              { title: 'Admitted', numeric: true, cell: (/** @type {Limit} */ row) => row.admitted },
              { title: 'Refused', numeric: true, cell: (/** @type {Limit} */ row) => overOf(row) },
              { title: 'Refused in 5 minutes', numeric: true, cell: (/** @type {Limit} */ row) => row.recent.refused }
            ]}
          />`
    }
    ${
      data !== undefined && rows.length < data.total
        ? html`<p>
            ${rows.length} of ${data.total} limits.
            ${rows.length < MOST ? html` <button type="button" onClick=${() => show(most + PAGE)}>Show more</button>` : ' Search for others.'}
          </p>`
        : null
    }
  <//>`
}

/** @param {Limit} limit */
const overOf = ({ refused, would_refuse: would }) => (would === 0 ? refused : `${refused} (${would} let through)`)

/** A number, or the expression that says it for each request. @param {Limit} limit */
const capacityOf = ({ capacity, capacity_expression: expression }) => capacity ?? html`<code>${expression}</code>`

/** @param {{ limit: Limit }} props */
function Mode({ limit }) {
  return limit.enforce
    ? html`<${Badge} tone="good">enforced<//>`
    : html`<${Badge} tone="info" title="Requests over the capacity are counted but not rejected.">not enforced<//>`
}

/** @param {{ id: string }} props */
function One({ id }) {
  const path = `/limits/${id}`
  const limit = useLoad(() => call('GET', path), [id], { every: EVERY })
  const top = useLoad(() => call('GET', `${path}/top`), [id], { every: EVERY })
  const [asked, ask] = useState(/** @type {string | undefined} */ (undefined))
  const reload = () => Promise.all([limit.reload(), top.reload()])
  const { data } = limit
  const back = html`<a href="#/limits">All limits</a>`
  if (data === undefined)
    return html`<${Page} title="Limit" lead=${back}>
      <${Problem} error=${limit.error} />
      ${limit.error === undefined ? html`<p class="wait" role="status">Loading …</p>` : null}
    <//>`
  return html`<${Page} title=${data.name} lead=${html`${data.owner.name}, rule ${data.rule}. ${back}`} actions=${html`<${Mode} limit=${data} />`}>
    <${Problem} error=${limit.error} />
    <div class="panel">
      <${Facts}
        entries=${[
          ['Capacity', html`${capacityOf(data)} in any ${data.rate}, for each bucket`],
          [
            'Cost of a request',
            data.cost === 1 ? undefined : (data.cost ?? html`<code>${data.cost_expression}</code>`)
          ],
          ['Key of a bucket', data.bucket_key.map((/** @type {string} */ part) => html`<code>${part}</code> `)],
          ['Buckets in use', data.buckets],
          ['Admitted', data.admitted],
          ['Refused', data.refused],
          ['Would have refused', data.enforce && data.would_refuse === 0 ? undefined : data.would_refuse],
          ['Counts', data.scope === 'cluster' ? 'shared by all processes on the store' : 'in each process separately'],
          ['Policy', html`<code>${data.policy.source}</code> line ${data.policy.line}`],
          ['Id', html`<code>${data.id}</code>`]
        ]}
      />
    </div>
    <div class="columns">
      <div class="panel"><${UseChart} limit=${data} /></div>
      <div class="panel"><${RateChart} limit=${data} /></div>
    </div>
    <section class="panel">
      <h2>Refused most now</h2>
      <${Top} top=${top} path=${path} reload=${reload} look=${ask} />
    </section>
    <section class="panel">
      <h2>Look up a key</h2>
      <${LookUp} limit=${data} ask=${ask} />
      ${asked === undefined ? null : html`<${Bucket} key=${asked} path=${`${path}/buckets?${asked}`} reload=${reload} />`}
    </section>
  <//>`
}

/** @param {any} limit */
function timesOf({ series: { steps } }) {
  return steps.map((/** @type {any} */ { at }) => Date.parse(at) / 1000)
}

/** @param {{ limit: any }} props */
function UseChart({ limit }) {
  const used = limit.series.steps.map((/** @type {any} */ step) => step.used)
  const most = Math.max(...used)
  return html`<${Chart}
    title="Use of the fullest bucket"
    summary=${`${most}${limit.capacity === null ? '' : ` of ${limit.capacity}`} at most in the last five minutes`}
    times=${timesOf(limit)}
    series=${[
      { label: 'Fullest bucket', colour: 'accent', values: used },
      ...(limit.capacity === null ? [] : [{ label: 'Capacity', colour: 'bad', values: used.map(() => limit.capacity) }])
    ]}
  />`
}

/** @param {{ limit: any }} props */
function RateChart({ limit }) {
  const { step_seconds: seconds, steps } = limit.series
  const rate = (/** @type {string} */ name) => steps.map((/** @type {any} */ step) => step[name] / seconds)
  return html`<${Chart}
    title="Requests"
    unit="/s"
    format=${(/** @type {number} */ value) => String(Math.round(value * 10) / 10)}
    summary=${`${limit.recent.admitted} admitted and ${limit.recent.refused} over the capacity in the last five minutes`}
    times=${timesOf(limit)}
    series=${[
      { label: 'Admitted', colour: 'good', values: rate('admitted') },
      { label: limit.enforce ? 'Refused' : 'Over', colour: 'bad', values: rate('refused') }
    ]}
  />`
}

/**
 * @param {{ top: ReturnType<typeof useLoad<any>>, path: string, reload: () => Promise<unknown>, look: (query: string) => void }} props
 */
function Top({ top: { data, error }, path, reload, look }) {
  const { code } = /** @type {any} */ (error ?? {})
  if (code === 'ERR_SLUICE_LIMIT_KEYS_OFF')
    return html`<p class="note">The option <code>limiter.top_keys</code> is off, so rejected keys are not listed. You can still look up a bucket by its key.</p>`
  if (data === undefined) return html`<${Problem} error=${error} />`
  const queryOf = (/** @type {any} */ row) => `bucket=${row.bucket}`
  return html`<${Problem} error=${error} />
    <${Table}
      label="Keys that are refused most"
      rows=${data.keys}
      id=${(/** @type {any} */ row) => row.bucket ?? 'long'}
      empty=${html`<${Empty} title="No requests were rejected">Keys over the capacity are listed here for five minutes, most rejected first.<//>`}
      columns=${[
        { title: 'Key', cell: (/** @type {any} */ row) => html`<${Key} values=${row.key} />` },
        {
          title: 'Refused',
          numeric: true,
          cell: (/** @type {any} */ row) =>
            row.refused === row.refused_at_least ? row.refused : `${row.refused_at_least} to ${row.refused}`
        },
        { title: 'Last', cell: (/** @type {any} */ row) => html`<${When} at=${row.last_refused_at} />` },
        {
          title: 'Commands',
          cell: (/** @type {any} */ row) =>
            row.bucket === null
              ? 'too long to keep'
              : html`<div class="actions">
                  <button type="button" onClick=${() => look(queryOf(row))}>Look up</button>
                  <${Reset} path=${`${path}/buckets?${queryOf(row)}`} values=${row.key} reload=${reload} />
                </div>`
        }
      ]}
    />`
}

/** @param {{ values: readonly unknown[] | null }} props */
function Key({ values }) {
  if (values === null) return html`<span>(long)</span>`
  return values.map((value) => html`<code>${typeof value === 'string' ? value : JSON.stringify(value)}</code> `)
}

/** @param {{ path: string, values: readonly unknown[] | null, reload: () => Promise<unknown> }} props */
function Reset({ path, values, reload }) {
  const whose = JSON.stringify(values?.length === 1 ? values[0] : values)
  return html`<${Action}
    label="Reset"
    confirm=${`Empties the bucket of ${whose}: its requests are admitted again, up to the capacity.`}
    run=${() => call('DELETE', path).then(reload)}
    done="Emptied"
  />`
}

/** @param {{ limit: any, ask: (query: string) => void }} props */
function LookUp({ limit, ask }) {
  const parts = /** @type {string[]} */ (limit.bucket_key)
  const look = (/** @type {any} */ event) => {
    event.preventDefault()
    const values = new FormData(event.target).getAll('part')
    const query = parts.length === 1 ? { key: String(values[0]) } : { values: JSON.stringify(values) }
    ask(String(new URLSearchParams(query)))
  }
  return html`<form class="filters" onSubmit=${look}>
    ${parts.map((part) => html`<${Field} key=${part} label=${part}><input name="part" required autocomplete="off" spellcheck=${false} /><//>`)}
    <button type="submit" class="primary">Look up</button>
  </form>`
}

/** @param {{ path: string, reload: () => Promise<unknown> }} props */
function Bucket({ path, reload }) {
  const { data, error, reload: again } = useLoad(() => call('GET', path), [path], { every: EVERY })
  if (data === undefined) return html`<${Problem} error=${error} />`
  const { used, capacity, retry_after_seconds: retry, reset_seconds: reset } = data
  const state = used === 0 ? 'empty' : retry === 0 ? 'admits' : retry === null ? 'in use' : 'full'
  return html`<section aria-label="Bucket" aria-live="polite">
    <h3><${Key} values=${data.key} /> <${Badge} tone=${retry === 0 || used === 0 ? 'good' : retry === null ? 'info' : 'warn'}>${state}<//></h3>
    <${Problem} error=${error} />
    ${
      capacity === null
        ? html`<p>${used} used; each request brings its own capacity.</p>`
        : html`<p><meter min="0" max=${capacity} value=${used} aria-label="Used of the capacity"></meter> ${used} of ${capacity} used, ${data.remaining} remain</p>`
    }
    <${Facts}
      entries=${[
        [
          'Next request',
          retry === null
            ? undefined
            : retry === 0
              ? 'is admitted'
              : html`is admitted at <${When} at=${data.next_admitted_at} />`
        ],
        ['All is free', reset === 0 ? 'now' : html`at <${When} at=${data.resets_at} />`],
        [
          'Shared with other keys',
          data.shared === 0 ? undefined : `${data.shared}, because the memory of the limiter is full`
        ]
      ]}
    />
    <${Reset} path=${path} values=${data.key} reload=${() => Promise.all([again(), reload()])} />
  </section>`
}
