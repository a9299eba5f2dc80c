/** Exchanges as they end, the newest first. */

import { call, shell } from './api.js'
import { TrafficCharts } from './charts.js'
import ExchangePage from './exchange.js'
import { saveFile } from './exchange-text.js'
import { exchangesOf, MOST_ROWS } from './live-exchanges.js'
import { Chips, Filters, fieldOf, NAMES, placeOf, withValue } from './traffic-filter.js'
import {
  Action,
  Badge,
  Copyable,
  clockText,
  durationText,
  Empty,
  html,
  Page,
  Problem,
  refusalOf,
  toneOf,
  useCallback,
  useEffect,
  useLoad,
  useMemo,
  useRef,
  useState,
  useStream
} from './ui.js'

/** Exchanges a second that a person may follow; the API leaves out the others, so that a page never costs traffic. */
const RATE = 20

/** @typedef {import('./traffic-filter.js').Filter} Filter */

/** @param {{ path: string[], query: URLSearchParams }} props */
export default function TrafficPage({ path, query }) {
  const reason = refusalOf('exchanges')
  const listed = useRef(false)
  const filter = NAMES.flatMap((name) => {
    const value = query.get(name)
    return value === null || value === '' ? [] : [/** @type {const} */ ([name, value])]
  })
  const key = new URLSearchParams(/** @type {any} */ (filter)).toString()
  if (reason !== undefined) return html`<${Refused} reason=${reason} />`
  const [id] = path
  if (id === undefined) listed.current = true
  // What comes while one of them is open is not lost.
  return html`
    ${listed.current ? html`<${List} filter=${filter} filterKey=${key} hidden=${id !== undefined} />` : null}
    ${id === undefined ? null : html`<${ExchangePage} key=${id} id=${id} back=${placeOf(filter)} />`}
  `
}

/** @param {{ reason: string }} props */
function Refused({ reason }) {
  return html`<${Page} title="Traffic">
    <${Empty} title="Only administrators can see traffic">
      ${reason} Exchanges show what clients have sent.
    <//>
  <//>`
}

/** `hidden`: it goes on, and shows nothing. @param {{ filter: Filter, filterKey: string, hidden: boolean }} props */
function List({ filter, filterKey: key, hidden }) {
  const live = exchangesOf(key)
  const [, again] = useState(0)
  const [explain, setExplain] = useState(true)
  useEffect(() => {
    live.changed = () => again((count) => count + 1)
    return () => {
      live.changed = () => {}
    }
  }, [live])
  const { data, error, loading, reload } = useLoad(async () => {
    const found = await call('GET', `/exchanges?limit=100${key === '' ? '' : `&${key}`}`)
    live.merge(found.exchanges)
    return found
  }, [key])
  const refused = /** @type {any} */ (error)?.status === 400
  const over = useMemo(() => filter.some(([name, value]) => name === 'until' && Date.parse(value) < Date.now()), [key])
  const { state, problem } = useStream(
    refused || over
      ? null
      : `/exchanges/stream?rate=${RATE}${explain ? '&explain=true' : ''}${key === '' ? '' : `&${key}`}`,
    (name, event) => live.take(name, event)
  )
  const paused = live.missed !== undefined
  const form = useRef(/** @type {HTMLFormElement | null} */ (null))
  useKeys(hidden, {
    pause: () => live.pause(live.missed === undefined),
    focus: () => form.current?.querySelector('input')?.focus()
  })
  useEffect(() => {
    if (hidden || live.opened === '') return
    document.getElementById(`open-${live.opened}`)?.focus()
    live.opened = ''
  }, [hidden])
  const wrong = error ?? problem
  const fields = useMemo(
    () => html`<${Filters} key=${key} filter=${filter} problem=${wrong} form=${form} />`,
    [key, wrong]
  )
  // Drawn as seconds pass, and not with each exchange.
  const charts = useMemo(() => html`<${TrafficCharts} />`, [])
  const rows = useMemo(() => live.rows, [live, live.rows])
  useEffect(() => {
    // What came while nothing was followed may have been recorded.
    const look = () => {
      if (!document.hidden && live.missed === undefined) void reload()
    }
    document.addEventListener('visibilitychange', look)
    return () => document.removeEventListener('visibilitychange', look)
  }, [live, reload])
  // What came before the stream was open, or between two of them, may have been recorded.
  useEffect(() => {
    if (state === 'open' && live.missed === undefined) void reload()
  }, [state])
  if (hidden) return null
  const actions = html`
    <button type="button" aria-pressed=${paused ? 'true' : 'false'} onClick=${() => live.pause(!paused)}>
      ${paused ? 'Resume' : 'Pause'}
    </button>
    <label class="switch">
      <input type="checkbox" checked=${explain} onChange=${(/** @type {any} */ event) => setExplain(event.target.checked)} />
      Explain
    </label>
  `
  return html`<${Page} title="Traffic" actions=${actions}>
    ${charts}
    ${fields}
    <${Chips} filter=${filter} />
    ${fieldOf(wrong) === undefined ? html`<${Problem} error=${wrong} />` : null}
    <${LiveState} live=${live} state=${over ? 'over' : refused ? 'refused' : state} />
    <p class="hidden" aria-live="polite">${live.speak()}</p>
    ${
      rows.length > 0
        ? html`<${Rows} rows=${rows} filter=${filter} filterKey=${key} live=${live} />`
        : loading && data === undefined
          ? html`<p class="wait" role="status">Loading …</p>`
          : wrong === undefined
            ? html`<${NothingYet} filter=${filter} recorder=${data?.recorder} />`
            : null
    }
    <${Below} live=${live} filter=${filter} filterKey=${key} found=${data} reload=${reload} />
  <//>`
}

/**
 * `/` goes to the filter, `p` pauses, outside of fields.
 * @param {boolean} off
 * @param {{ pause: () => void, focus: () => void }} keys
 */
function useKeys(off, keys) {
  const now = useRef(keys)
  now.current = keys
  useEffect(() => {
    if (off) return undefined
    const onKey = (/** @type {KeyboardEvent} */ event) => {
      const target = /** @type {HTMLElement} */ (event.target)
      if (event.ctrlKey || event.altKey || event.metaKey || target.closest('input, textarea, select, dialog') !== null)
        return
      if (event.key === '/') now.current.focus()
      else if (event.key === 'p') now.current.pause()
      else return
      event.preventDefault()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [off])
}

/** @param {{ live: ReturnType<typeof exchangesOf>, state: string }} props */
function LiveState({ live, state }) {
  const { missed, sampled, dropped } = live
  const words = /** @type {Record<string, [string, string]>} */ ({
    open: ['good', 'Live'],
    waiting: ['warn', 'Connecting again …'],
    refused: ['bad', 'Not following'],
    over: ['', 'Disconnected: the session has expired'],
    off: ['', 'Connecting …']
  })
  const [tone, text] = words[state] ?? ['', state]
  return html`<p class="small live-state">
    ${missed === undefined ? html`<${Badge} tone=${tone}>${text}<//>` : html`<${Badge} tone="warn">Paused<//>`}
    ${missed === undefined ? null : html`<span>${missed === 1 ? '1 exchange has come' : `${missed} exchanges have come`} meanwhile.</span>`}
    ${sampled === 0 ? null : html`<span>${` Sampled: at most ${RATE} requests a second are shown, ${sampled.toLocaleString()} are not.`}</span>`}
    ${dropped === 0 ? null : html`<span>${` ${dropped.toLocaleString()} are missing: the browser was too slow.`}</span>`}
    <span class="keys">Keys: <kbd>/</kbd> filter, <kbd>p</kbd> pause</span>
  </p>`
}

/** @param {{ rows: readonly any[], filter: Filter, filterKey: string, live: ReturnType<typeof exchangesOf> }} props */
function Rows({ rows, filter, filterKey, live }) {
  // A row does not change: one that is made again is not looked at again.
  const made = useMemo(() => new WeakMap(), [filterKey])
  const open = useCallback(
    (/** @type {string} */ id) => {
      live.opened = id
    },
    [live]
  )
  const rowOf = (/** @type {any} */ exchange) => {
    const known = made.get(exchange)
    if (known !== undefined) return known
    const row = html`<${Row} key=${exchange.id} exchange=${exchange} filter=${filter} onOpen=${open} />`
    made.set(exchange, row)
    return row
  }
  return html`<div class="table-box" role="region" aria-label="Exchanges" tabindex="0">
    <table class="exchanges" role="table">
      <caption class="hidden">Exchanges, the newest first</caption>
      <thead role="rowgroup">
        <tr role="row">
          <th scope="col" role="columnheader" class="c-time">Time</th>
          <th scope="col" role="columnheader" class="c-decided">Decision</th>
          <th scope="col" role="columnheader">Request</th>
          <th scope="col" role="columnheader" class="c-client">Client</th>
          <th scope="col" role="columnheader" class="c-route">Route</th>
          <th scope="col" role="columnheader" class="c-rule">Rule</th>
          <th scope="col" role="columnheader" class="c-took numeric">Took</th>
        </tr>
      </thead>
      <tbody role="rowgroup">${rows.map(rowOf)}</tbody>
    </table>
  </div>`
}

/** @param {{ exchange: any, filter: Filter, onOpen: (id: string) => void }} props */
function Row({ exchange, filter, onOpen }) {
  const { id, at, decided, decision, method, url, client_ip: client, route_name: route, duration_ms: took } = exchange
  const { status, by, reason } = decision
  const shown = decided === 'forwarded' ? String(status) : decided
  return html`<tr role="row" class=${status >= 500 || status === 0 ? 'bad' : status >= 400 ? 'warn' : ''}>
    <td role="cell" data-label="Time" class="mono" title=${at}>${clock(at)}</td>
    <td role="cell" data-label="Decision"><${Badge} tone=${status === 0 ? 'bad' : toneOf(status)} title=${reason ?? ''}>${shown}<//></td>
    <th scope="row" role="rowheader" title=${`${method} ${url}`}>
      <a id=${`open-${id}`} href=${`#/${placeOf(filter, id)}`} onClick=${() => onOpen(id)}>${method} ${shortUrl(url)}</a>
    </th>
 <td role="cell" data-label="Client"><${Follow} filter=${filter} name="client" value=${client} /></td>
 <td role="cell" data-label="Route"><${Follow} filter=${filter} name="route" value=${route} /></td>
 <td role="cell" data-label="Rule"><${Follow} filter=${filter} name="rule" value=${by?.rule} /></td>
    <td role="cell" data-label="Took" class="numeric">${durationText(took)}</td>
  </tr>`
}

/** A value that can be followed by itself. @param {{ filter: Filter, name: string, value: string | null | undefined }} props */
function Follow({ filter, name, value }) {
  if (value === null || value === undefined) return html`<span class="small">–</span>`
  if (filter.some(([one, wanted]) => one === name && wanted === value))
    return html`<span title=${value}>${value}</span>`
  return html`<a href=${`#/${placeOf(withValue(filter, name, value))}`} title=${`Only ${name} ${value}`}>${value}</a>`
}

/**
 * The time of day with milliseconds.
 * @param {string} at
 */
function clock(at) {
  const date = new Date(at)
  return `${clockText(date)}.${String(date.getMilliseconds()).padStart(3, '0')}`
}

/** @param {string} url */
function shortUrl(url) {
  return url.replace(/^https?:\/\//, '')
}

/** @param {{ filter: Filter, recorder: any }} props */
function NothingYet({ filter, recorder }) {
  const { data: address } = useLoad(listenerAddress)
  if (filter.length > 0)
    return html`<${Empty} title="No matching requests yet">
      What comes is looked at as it ends, and what is recorded was looked through.${' '}
      <a href="#/traffic">Show everything</a>
    <//>`
  return html`<${Empty} title="No exchange yet" command=${`curl ${address ?? 'http://127.0.0.1:8080/'}`}>
    Send a request, and it appears here with how it was decided.${' '}
    ${
      recorder?.where == null
        ? html`The recorder keeps refused and failed requests, and a sample of the others. The option${' '}
            <code>recorder.where</code>, such as <code>SLUICE_RECORDER_WHERE=true</code>, or${' '}
            <code>recorder: { where: "res.status_code >= 400" }</code> in the options file, chooses others;${' '}
            <code>recorder.bodies</code> says how much of their bodies.`
        : html`The recorder keeps what fits <code>${recorder.where}</code>.`
    }
  <//>`
}

/** Address at which clients reach this process; undefined without a listener. */
async function listenerAddress() {
  const { endpoints } = await call('GET', '/endpoints?limit=100')
  const http = endpoints.filter((/** @type {any} */ one) => /^https?$/.test(one.proto) && one.port !== 0)
  const found = http.find((/** @type {any} */ one) => one.type === 'default') ?? http[0]
  const url = found?.public_url ?? found?.url
  return url === undefined || url === null ? undefined : `${url.replace(/\/$/, '')}/`
}

/** What can be done with the list. @param {{ live: ReturnType<typeof exchangesOf>, filter: Filter, filterKey: string, found: any, reload: () => Promise<void> }} props */
function Below({ live, filterKey: key, found, reload }) {
  const [made, setMade] = useState(/** @type {any} */ (undefined))
  const [end, setEnd] = useState(false)
  useEffect(() => setEnd(false), [key])
  const older = async () => {
    const last = live.rows.at(-1)
    const query = `limit=100&before_id=${encodeURIComponent(last.id)}${key === '' ? '' : `&${key}`}`
    const { exchanges } = await call('GET', `/exchanges?${query}`)
    live.merge(exchanges)
    if (exchanges.length === 0) setEnd(true)
    live.settle()
  }
  const save = async () => {
    const archive = await call('GET', `/exchanges/har${key === '' ? '' : `?${key}`}`)
    saveFile('exchanges.har', JSON.stringify(archive, null, 2), 'application/har+json')
  }
  const forget = async () => {
    await call('DELETE', '/exchanges')
    live.clear()
    await reload()
  }
  const explainKey = async () => {
    const { header, value, ends_at: ends } = await call('POST', '/explain/keys', { lasts: '10m' })
    const address = await listenerAddress()
    setMade({
      command: `curl -i -H ${shell(`${header}: ${value}`)} ${shell(address ?? 'http://127.0.0.1:8080/')}`,
      ends
    })
  }
  const full = live.rows.length >= MOST_ROWS
  return html`<div class="actions below">
      ${
        live.rows.length > 0 && found?.recorder?.exchanges > 0
          ? html`<${Action}
              label="Show older ones"
              run=${older}
              reason=${full ? `This page shows at most ${MOST_ROWS}. Use a filter such as until for older ones.` : end ? 'There are no older requests.' : undefined}
            />`
          : null
      }
      <${Action} label="Save as HAR" run=${save} />
      <${Action} label="Forget what is recorded" run=${forget} confirm="All exchanges that this process has recorded are forgotten." tone="danger" />
      <${Action} label="Explain one request of my own" run=${explainKey} />
    </div>
    ${
      made === undefined
        ? null
        : html`<div class="panel">
            <p>
              A request with this field is explained and recorded, whatever else is; its answer names the exchange. The key ends at${' '}
              ${clockText(new Date(made.ends))}.
            </p>
            <${Copyable} text=${made.command} />
          </div>`
    }`
}
