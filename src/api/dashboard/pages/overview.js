/** The start page: whether all is well, traffic now beside an hour and a day ago, and who causes most of it. */

import { call } from './api.js'
import { Chart } from './chart.js'
import { HeatMap } from './heat-map.js'
import { lights, updateLights } from './lights.js'
import { Badge, durationText, html, Page, Problem, refusalOf, Table, useLoad, useStore } from './ui.js'

const EVERY = 15_000
/** Rows of a table, and limits whose keys are looked up. */
const TOP = 5
const MAX_LIMITS = 3
const RECORDED = 100

/** The page. */
export default function OverviewPage() {
  const day = useLoad(loadDay, [], { every: EVERY })
  const map = useLoad(updateLights, [], { every: EVERY })
  return html`<${Page} title="Overview" lead="The process that answers, now and in the last day.">
    <${Problem} error=${map.error ?? day.error} />
    <${Lights} />
    ${
      day.data === undefined
        ? html`<p class="wait" role="status">Loading …</p>`
        : html`<${Compared} compared=${day.data.compared} /><${DayCharts} steps=${day.data.steps} />`
    }
    <div class="columns">
      ${map.data === undefined ? null : html`<${TopSites} map=${map.data} />`}
      <${RefusedKeys} />
      <${Recorded} />
    </div>
  <//>`
}

/** The last day; a process that is younger than five minutes compares its last minute. */
async function loadDay() {
  const [day, { last_minute: minute }] = await Promise.all([
    call('GET', '/traffic/day?minutes=1440&step=10'),
    call('GET', '/traffic?seconds=1')
  ])
  const young = minute.seconds === 0 ? null : { ...minute, minutes: 1 }
  return { ...day, compared: { ...day.compared, now: day.compared.now ?? young } }
}

function Lights() {
  const all = useStore(lights)
  if (all === undefined) return null
  return html`<ul class="lights" aria-label="State">
    ${all.map(
      ({ name, tone, text, place }) =>
        html`<li key=${name}><a href=${`#/${place}`}>${name}</a> <${Badge} tone=${tone}>${text}<//></li>`
    )}
  </ul>`
}

const ROWS = [
  { name: 'Requests a minute', read: (/** @type {any} */ one) => one.requests / one.minutes, show: rateText },
  { name: 'Refused a minute', read: (/** @type {any} */ one) => one.refused / one.minutes, show: rateText },
  { name: 'Failed a minute', read: (/** @type {any} */ one) => one.failed / one.minutes, show: rateText },
  { name: 'Half within', read: (/** @type {any} */ one) => one.p50_ms, show: durationText },
  { name: '99 % within', read: (/** @type {any} */ one) => one.p99_ms, show: durationText }
]

/** @param {number} rate */
function rateText(rate) {
  return rate >= 10 || Number.isInteger(rate) ? String(Math.round(rate)) : rate.toFixed(1)
}

/** @param {{ compared: any }} props */
function Compared({ compared: { now, hour_ago: hour, day_ago: day } }) {
  const cell = (/** @type {any} */ row, /** @type {any} */ one) => (one === null ? '–' : row.show(row.read(one)))
  return html`<h2>Now and before</h2>
    <${Table}
      label="Traffic of five minutes, now and before"
      rows=${ROWS}
      id=${(/** @type {any} */ row) => row.name}
      columns=${[
        { title: 'Traffic', cell: (/** @type {any} */ row) => row.name },
        { title: 'Now', numeric: true, cell: (/** @type {any} */ row) => cell(row, now) },
        { title: 'An hour ago', numeric: true, cell: (/** @type {any} */ row) => cell(row, hour) },
        { title: 'A day ago', numeric: true, cell: (/** @type {any} */ row) => cell(row, day) }
      ]}
    />
    <p class="small">Each of five minutes, as far as this process knows them.</p>`
}

/** @param {{ steps: readonly any[] }} props */
function DayCharts({ steps }) {
  if (steps.length < 2)
    return html`<p class="small">The charts of the last day begin twenty minutes after the start of the process.</p>`
  const times = steps.map(({ at }) => Date.parse(at) / 1000)
  const all = steps.reduce((sum, { requests }) => sum + requests, 0)
  const rate = (/** @type {string} */ name) => steps.map((one) => one[name] / one.minutes)
  return html`<h2>The last day</h2>
    <div class="charts">
      <${Chart}
        title="Requests a minute"
        summary=${`${all.toLocaleString('en')} in all`}
        times=${times}
        series=${[
          { label: 'requests', colour: 'info', values: rate('requests') },
          { label: 'refused', colour: 'warn', values: rate('refused') },
          { label: 'failed', colour: 'bad', values: rate('failed') }
        ]}
        format=${rateText}
      />
      <${HeatMap} steps=${steps} />
    </div>`
}

/** @param {{ map: any }} props */
function TopSites({ map }) {
  const sites = [...map.edges]
    .filter(({ rates }) => rates.requests > 0)
    .sort((a, b) => b.rates.requests - a.rates.requests)
    .slice(0, TOP)
  return html`<section>
    <h2>Busiest sites</h2>
    <${Table}
      label="Busiest sites"
      rows=${sites}
      id=${(/** @type {any} */ row) => row.id}
      place=${(/** @type {any} */ row) => `traffic?edge=${row.id}`}
      empty=${html`<p>No request in the last minute.</p>`}
      columns=${[
        {
          title: 'Site',
          cell: (/** @type {any} */ { hosts, every_host: every }) =>
            every ? 'Every other host' : hosts.map((/** @type {any} */ { host }) => host).join(', ')
        },
        { title: 'Requests a minute', numeric: true, cell: (/** @type {any} */ { rates }) => rates.requests },
        { title: 'Refused', numeric: true, cell: (/** @type {any} */ { rates }) => rates.refused },
        { title: 'Failed', numeric: true, cell: (/** @type {any} */ { rates }) => rates.failed }
      ]}
    />
  </section>`
}

function RefusedKeys() {
  const reason = refusalOf('limits')
  const { data, error } = useLoad(() => (reason === undefined ? refusedKeys() : Promise.resolve([])), [], {
    every: EVERY
  })
  if (reason !== undefined) return null
  return html`<section>
    <h2>Refused keys</h2>
    <${Problem} error=${error} />
    <${Table}
      label="Keys that limits refuse most"
      rows=${data ?? []}
      id=${(/** @type {any} */ row) => `${row.limit.id} ${row.bucket}`}
      place=${(/** @type {any} */ row) => `limits/${row.limit.id}`}
      empty=${html`<p>No limit has refused a request in the last five minutes.</p>`}
      columns=${[
        { title: 'Key', cell: (/** @type {any} */ row) => row.name },
        { title: 'Limit', cell: (/** @type {any} */ row) => row.limit.name },
        { title: 'Refused', numeric: true, cell: (/** @type {any} */ row) => row.count }
      ]}
    />
  </section>`
}

async function refusedKeys() {
  const { limits } = await call('GET', `/limits?order=refused&limit=${MAX_LIMITS}`)
  const refusing = limits.filter((/** @type {any} */ limit) => limit.recent.refused > 0)
  const keys = await Promise.all(
    refusing.map(async (/** @type {any} */ limit) => {
      const found = await call('GET', `/limits/${limit.id}/top?limit=${TOP}`)
      return found.keys.map((/** @type {any} */ key) => ({
        ...key,
        limit,
        name: (key.key ?? ['too long to be shown']).join(', '),
        count: key.refused
      }))
    })
  )
  return keys
    .flat()
    .sort((a, b) => b.count - a.count)
    .slice(0, TOP)
}

function Recorded() {
  const reason = refusalOf('exchanges')
  const { data, error } = useLoad(
    () => (reason === undefined ? call('GET', `/exchanges?limit=${RECORDED}`) : Promise.resolve({ exchanges: [] })),
    [],
    { every: EVERY }
  )
  if (reason !== undefined || data === undefined) return html`<${Problem} error=${error} />`
  const { exchanges } = data
  const clients = top(
    exchanges,
    (one) => one.client_ip,
    (all) => all.length
  )
  const routes = top(
    exchanges.filter((/** @type {any} */ one) => one.route_name !== null),
    (one) => one.route_name,
    (all) => all.reduce((sum, one) => sum + (one.duration_ms ?? 0), 0) / all.length
  )
  const none = html`<p>
    No exchange is recorded yet.
  </p>`
  return html`<section>
      <h2>Clients of the last ${exchanges.length} recorded exchanges</h2>
      <${Table}
        label="Clients"
        rows=${clients}
        id=${(/** @type {any} */ row) => row.name}
        place=${(/** @type {any} */ row) => `traffic?client=${encodeURIComponent(row.name)}`}
        empty=${none}
        columns=${[
          { title: 'Client', cell: (/** @type {any} */ row) => row.name },
          { title: 'Exchanges', numeric: true, cell: (/** @type {any} */ row) => row.value }
        ]}
      />
    </section>
    <section>
      <h2>Slowest routes of them</h2>
      <${Table}
        label="Slowest routes"
        rows=${routes}
        id=${(/** @type {any} */ row) => row.name}
        place=${(/** @type {any} */ row) => `traffic?route=${encodeURIComponent(row.name)}`}
        empty=${none}
        columns=${[
          { title: 'Route', cell: (/** @type {any} */ row) => row.name },
          { title: 'Exchanges', numeric: true, cell: (/** @type {any} */ row) => row.count },
          { title: 'Took on average', numeric: true, cell: (/** @type {any} */ row) => durationText(row.value) }
        ]}
      />
    </section>`
}

/**
 * The groups of exchanges with the highest values.
 * @param {readonly any[]} exchanges
 * @param {(exchange: any) => string} name
 * @param {(group: readonly any[]) => number} value
 */
function top(exchanges, name, value) {
  /** @type {Map<string, any[]>} */
  const groups = new Map()
  for (const one of exchanges) groups.set(name(one), [...(groups.get(name(one)) ?? []), one])
  return [...groups]
    .map(([key, group]) => ({ name: key, count: group.length, value: value(group) }))
    .sort((a, b) => b.value - a.value)
    .slice(0, TOP)
}
