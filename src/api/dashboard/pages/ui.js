/** Small components of all pages, and the hooks that load their data. */

import htm from 'htm'
import { h } from 'preact'
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { ApiProblem, call, calls, curlOf, follow, Store, session } from './api.js'

export { render } from 'preact'
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState }

/** Beginning of the titles of all pages, which a background tab shows; empty without a problem. */
export const alarm = new Store('')

/** Templates that read as HTML. */
export const html = htm.bind(h)

/**
 * The value of a store; renders again when it changes.
 * @template T
 * @param {import('./api.js').Store<T>} store
 * @returns {T}
 */
export function useStore(store) {
  const [, again] = useState(0)
  useEffect(() => store.follow(() => again((count) => count + 1)), [store])
  return store.value
}

/**
 * Loads something when the page opens, when `deps` change, and on `reload()`; `every`: again after so many milliseconds while
 * the page is visible. What was loaded stays while more is loading.
 * @template T
 * @param {() => Promise<T>} load
 * @param {readonly unknown[]} [deps]
 * @param {{ every?: number }} [options]
 * @returns {{ data: T | undefined, error: unknown, loading: boolean, reload: () => Promise<void> }}
 */
export function useLoad(load, deps = [], { every } = {}) {
  const [state, set] = useState(
    /** @type {{ data: T | undefined, error: unknown, loading: boolean }} */ ({
      data: undefined,
      error: undefined,
      loading: true
    })
  )
  const turn = useRef(0)
  const reload = useCallback(async () => {
    const mine = ++turn.current
    set((before) => ({ ...before, loading: true }))
    try {
      const data = await load()
      if (mine === turn.current) set({ data, error: undefined, loading: false })
    } catch (error) {
      if (mine === turn.current) set((before) => ({ ...before, error, loading: false }))
    }
  }, deps)
  useEffect(() => {
    void reload()
    const timer =
      every === undefined
        ? undefined
        : setInterval(() => {
            if (!document.hidden) void reload()
          }, every)
    return () => {
      turn.current++
      clearInterval(timer)
    }
  }, [reload])
  return { ...state, reload }
}

/**
 * The records of a list of the API, a page of them at a time, again each `every` milliseconds; `next` loads more of them.
 * @param {string} path
 * @param {string} member of the answer that holds the records
 * @param {{ every?: number, limit?: number }} [options]
 */
export function useList(path, member, { every, limit = 50 } = {}) {
  const [pages, setPages] = useState(1)
  const load = async () => {
    /** @type {any[]} */
    const rows = []
    /** @type {string | undefined} */
    let from = `${path}?limit=${limit}`
    for (let page = 0; page < pages && from !== undefined; page++) {
      const found = await call('GET', from)
      rows.push(...found[member])
      from = found.next_page_uri === null ? undefined : `${path}${new URL(found.next_page_uri).search}`
    }
    return { rows, more: from !== undefined }
  }
  const { data, error, loading, reload } = useLoad(load, [path, pages], every === undefined ? {} : { every })
  const next = data?.more ? () => setPages(pages + 1) : undefined
  return { rows: data?.rows, error, loading, reload, next }
}

/**
 * All records of a list.
 * @param {string} path
 * @param {string} member
 * @returns {Promise<any[]>}
 */
export async function everyOf(path, member) {
  const rows = []
  for (let from = `${path}?limit=100`; ; ) {
    const found = await call('GET', from)
    rows.push(...found[member])
    if (found.next_page_uri === null) return rows
    from = `${path}${new URL(found.next_page_uri).search}`
  }
}

/**
 * Content of a list: an error, a note while it loads, its table, and a button for more rows.
 * @param {{ list: ReturnType<typeof useList>, children?: any }} props
 */
export function Listed({ list, children }) {
  return html`<${Problem} error=${list.error} />
    ${list.rows === undefined ? (list.error === undefined ? html`<p class="wait" role="status">Loading …</p>` : null) : children}
    ${list.next === undefined ? null : html`<p><button type="button" onClick=${list.next}>Show more</button></p>`}`
}

/**
 * Follows a stream while the page is visible; `path` null: not at all. Answers its state.
 * @param {string | null} path
 * @param {(name: string, data: any) => void} onEvent
 * @returns {{ state: 'open' | 'waiting' | 'refused' | 'off', problem: ApiProblem | undefined }}
 */
export function useStream(path, onEvent) {
  const [state, set] = useState(
    /** @type {{ state: any, problem: ApiProblem | undefined }} */ ({ state: 'off', problem: undefined })
  )
  const handler = useRef(onEvent)
  handler.current = onEvent
  useEffect(() => {
    if (path === null) {
      set({ state: 'off', problem: undefined })
      return undefined
    }
    /** @type {(() => void) | undefined} */
    let stop
    const arrange = () => {
      if (document.hidden) {
        stop?.()
        stop = undefined
      } else {
        stop ??= follow(path, {
          onEvent: (name, data) => handler.current(name, data),
          onState: (now, problem) => set({ state: now, problem })
        })
      }
    }
    arrange()
    document.addEventListener('visibilitychange', arrange)
    return () => {
      document.removeEventListener('visibilitychange', arrange)
      stop?.()
    }
  }, [path])
  return state
}

/**
 * May the caller do this? `right`: one of the account (`exchanges`), or `resource.operation` (`tls_certificate.update`). Answers
 * the reason to refuse; undefined: they may. What is theirs alone (`own`) is left to the API.
 * @param {string} right
 * @returns {string | undefined}
 */
export function refusalOf(right) {
  const rights = session.value?.rights ?? {}
  const [name = '', operation] = right.split('.')
  const allowed =
    operation === undefined ? rights[name] === true : (rights.resources?.[name]?.[operation] ?? 'none') !== 'none'
  return allowed ? undefined : 'Only an administrator may do this.'
}

/**
 * Goes to a place of the dashboard: `traffic/exch_…?status=4xx`.
 * @param {string} place
 */
export function go(place) {
  location.hash = `#/${place}`
}

/**
 * The frame of a page: its heading, what can be done there, and the rest.
 * @param {{ title: string, actions?: any, lead?: any, children?: any }} props
 */
export function Page({ title, actions, lead, children }) {
  const warning = useStore(alarm)
  useEffect(() => {
    document.title = `${warning === '' ? '' : `${warning} · `}${title} · Sluice`
  }, [title, warning])
  return html`<div class="page">
    <div class="page-head">
      <h1 tabindex="-1">${title}</h1>
      ${actions === undefined ? null : html`<div class="actions">${actions}</div>`}
    </div>
    ${lead === undefined ? null : html`<p class="lead">${lead}</p>`}
    ${children}
  </div>`
}

/**
 * A table. `columns`: `{title, cell(row), numeric?, label?}`; the first column names the row. `onOpen(row)` makes rows links: its
 * result is where they lead, as a place for `go`.
 * @param {{ label: string, columns: readonly any[], rows: readonly any[], id: (row: any) => string, place?: (row: any) => string | undefined, tone?: (row: any) => string | undefined, empty?: any }} props
 */
export function Table({ label, columns, rows, id, place, tone, empty }) {
  if (rows.length === 0 && empty !== undefined) return empty
  const first = (/** @type {any} */ row) => {
    const to = place?.(row)
    const content = columns[0].cell(row)
    return to === undefined ? content : html`<a href=${`#/${to}`}>${content}</a>`
  }
  // In a narrow window rows are cards: without these roles they would be no table for readers of the screen then.
  return html`<div class="table-box" role="region" aria-label=${label} tabindex="0">
    <table role="table">
      <caption class="hidden">${label}</caption>
      <thead role="rowgroup">
        <tr role="row">
          ${columns.map((column) => html`<th scope="col" role="columnheader" class=${column.numeric ? 'numeric' : ''}>${column.title}</th>`)}
        </tr>
      </thead>
      <tbody role="rowgroup">
        ${rows.map(
          (row) => html`<tr key=${id(row)} role="row" class=${tone?.(row) ?? ''}>
            ${columns.map((column, at) =>
              at === 0
                ? html`<th scope="row" role="rowheader">${first(row)}</th>`
                : html`<td role="cell" data-label=${column.title} class=${column.numeric ? 'numeric' : ''}><div>${column.cell(row)}</div></td>`
            )}
          </tr>`
        )}
      </tbody>
    </table>
  </div>`
}

/**
 * Placeholder of an empty list: its purpose, and the command that creates the first entry.
 * @param {{ title: string, children?: any, command?: string }} props
 */
export function Empty({ title, children, command }) {
  return html`<div class="empty">
    <h2>${title}</h2>
    ${children === undefined ? null : html`<p>${children}</p>`}
    ${command === undefined ? null : html`<${Copyable} text=${command} />`}
  </div>`
}

/**
 * A text with a button that copies it.
 * @param {{ text: string, label?: string }} props
 */
export function Copyable({ text, label = 'Copy' }) {
  const [done, set] = useState(false)
  const copy = async () => {
    await copyText(text)
    set(true)
    setTimeout(() => set(false), 1500)
  }
  return html`<div class="copyable">
    <pre tabindex="0">${text}</pre>
    <button type="button" onClick=${copy}>${done ? 'Copied' : label}</button>
  </div>`
}

/**
 * Copies a text; also where the browser keeps its clipboard from pages without TLS.
 * @param {string} text
 */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text)
  } catch {
    const area = document.createElement('textarea')
    area.value = text
    document.body.append(area)
    area.select()
    document.execCommand('copy')
    area.remove()
  }
}

/**
 * An error as the API said it.
 * @param {{ error: unknown }} props
 */
export function Problem({ error }) {
  if (error === undefined || error === null) return null
  const problem = /** @type {ApiProblem} */ (error)
  return html`<div class="problem" role="alert">
    <p><strong>${problem.message}</strong></p>
    ${(problem.problems ?? []).map((one) => html`<p>${one.msg ?? one.message}</p>`)}
    ${problem.code ? html`<p class="small">${problem.code} ${problem.details?.operation_id ?? ''}</p>` : null}
  </div>`
}

/**
 * A word with a colour. `tone`: good, warn, bad, info or nothing.
 * @param {{ tone?: string, title?: string, children?: any }} props
 */
export function Badge({ tone = '', title, children }) {
  return html`<span class=${`badge ${tone}`} title=${title}>${children}</span>`
}

/**
 * The tone of a status code.
 * @param {number | null | undefined} status
 */
export function toneOf(status) {
  if (status === undefined || status === null || status === 0) return ''
  return status >= 500 ? 'bad' : status >= 400 ? 'warn' : status >= 300 ? 'info' : 'good'
}

/**
 * A time: today's as the time of day, others with their date; the whole of it as its title.
 * @param {{ at: string | number | null | undefined }} props
 */
export function When({ at }) {
  if (at === null || at === undefined || at === '') return html`<span>–</span>`
  const date = new Date(at)
  const isToday = date.toDateString() === new Date().toDateString()
  const text = isToday ? clockText(date) : `${dayText(date)} ${clockText(date)}`
  return html`<time datetime=${date.toISOString()} title=${date.toISOString()}>${text}</time>`
}

/** @param {number} value */
const two = (value) => String(value).padStart(2, '0')

/**
 * The local time of day, `14:05:09`: the one form of it on all pages.
 * @param {Date} date
 */
export function clockText(date) {
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':')
}

/**
 * The local date, `2026-01-31`.
 * @param {Date} date
 */
function dayText(date) {
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
}

/**
 * A number with its noun: `1 line`, `2 lines`.
 * @param {number} count
 * @param {string} noun in the singular
 */
export function countText(count, noun) {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

/**
 * Milliseconds as a person reads them.
 * @param {number | null | undefined} ms
 */
export function durationText(ms) {
  if (ms === undefined || ms === null) return '–'
  if (ms < 1) return `${Math.round(ms * 1000)} µs`
  if (ms < 100) return `${ms.toFixed(1)} ms`
  return ms < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`
}

/**
 * The time since a moment, in its two largest units: `3 d 4 h`.
 * @param {string} at RFC 3339
 */
export function sinceText(at) {
  const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(at)) / 1000))
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3_600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'min'],
    [seconds % 60, 's']
  ]
  const first = parts.findIndex(([count]) => count !== 0)
  return first === -1
    ? '0 s'
    : parts
        .slice(first, first + 2)
        .map(([count, unit]) => `${count} ${unit}`)
        .join(' ')
}

/**
 * Bytes as a person reads them.
 * @param {number | null | undefined} bytes
 */
export function bytesText(bytes) {
  if (bytes === undefined || bytes === null) return '–'
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let at = 0
  let rest = bytes
  while (rest >= 1024 && at < units.length - 1) {
    rest /= 1024
    at++
  }
  return `${at === 0 ? rest : rest.toFixed(1)} ${units[at]}`
}

/**
 * A labelled field of a form; `children` is the field, `hint` says what it is for. The label surrounds the field.
 * @param {{ label: string, hint?: any, children?: any }} props
 */
export function Field({ label, hint, children }) {
  return html`<label class="field">
    <span>${label}</span>
    ${children}
    ${hint === undefined ? null : html`<small>${hint}</small>`}
  </label>`
}

/**
 * A window above the page. Escape closes it, and the focus goes back to where it was.
 * @param {{ title: string, onClose: () => void, wide?: boolean, children?: any }} props
 */
export function Dialog({ title, onClose, wide = false, children }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null))
  useEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement)
    element.current?.showModal()
    return () => before?.focus()
  }, [])
  return html`<dialog ref=${element} class=${wide ? 'wide' : ''} aria-label=${title} onClose=${onClose}>
    <div class="dialog-head">
      <h2>${title}</h2>
      <button type="button" aria-label="Close" onClick=${() => element.current?.close()}>×</button>
    </div>
    ${children}
  </dialog>`
}

/**
 * A button; with a `reason` it cannot be used, stays in the order of the keyboard and says why when it is pressed.
 * @param {{ label: string, onClick: () => unknown, reason?: string | undefined, tone?: string, busy?: boolean }} props
 */
export function Button({ label, onClick, reason, tone = '', busy = false }) {
  const [told, tell] = useState(false)
  const refused = reason !== undefined
  return html`<button
      type="button"
      class=${tone}
      disabled=${busy}
      aria-disabled=${refused ? 'true' : undefined}
      title=${reason}
      onClick=${refused ? () => tell(true) : onClick}
    >
      ${busy ? `${label} …` : label}
    </button>
    ${refused ? html`<span role="status" class=${told ? 'small' : 'hidden'}>${reason}</span>` : null}`
}

/**
 * A button that does something through the API: it shows that it is under way, the call that was made, and what the API said.
 * `reason`: why it cannot be done; `confirm`: what is asked first.
 * @param {{ label: string, run: () => Promise<unknown>, reason?: string | undefined, confirm?: string, tone?: string, done?: string }} props
 */
export function Action({ label, run, reason, confirm, tone = '', done = 'Done' }) {
  const [state, set] = useState(
    /** @type {{ busy: boolean, error: unknown, made: any }} */ ({ busy: false, error: undefined, made: undefined })
  )
  const [asking, ask] = useState(false)
  const act = async () => {
    ask(false)
    const before = calls.value[0]?.number ?? 0
    set({ busy: true, error: undefined, made: undefined })
    /** @type {unknown} */
    let error
    try {
      await run()
    } catch (thrown) {
      error = thrown
    }
    const made = calls.value.find((one) => one.number > before)
    set({ busy: false, error, made })
  }
  return html`<span class="action">
    <${Button}
      label=${label}
      tone=${tone}
      reason=${reason}
      busy=${state.busy}
      onClick=${confirm === undefined ? act : () => ask(true)}
    />
    ${
      asking
        ? html`<${Dialog} title=${label} onClose=${() => ask(false)}>
            <p>${confirm}</p>
            <div class="actions">
              <button type="button" class=${tone} onClick=${act}>${label}</button>
              <button type="button" onClick=${() => ask(false)}>Cancel</button>
            </div>
          <//>`
        : null
    }
    <span role="status">
      ${state.error === undefined && state.made !== undefined ? html`<${CallMade} made=${state.made} text=${done} />` : null}
    </span>
    ${state.error === undefined ? null : html`<${Problem} error=${state.error} />`}
  </span>`
}

/**
 * A call that was made, in a line; the command that does the same is copied from it.
 * @param {{ made: import('./api.js').Call, text?: string }} props
 */
export function CallMade({ made, text = '' }) {
  return html`<span class="call-made">
    ${text} <code>${made.method} ${made.path}</code>
    <${Badge} tone=${toneOf(made.status)}>${made.status ?? '…'}<//>
    <button type="button" class="small" onClick=${() => copyText(curlOf(made))}>Copy as curl</button>
  </span>`
}

/**
 * Choices of which one is shown below. The arrow keys go from one to the next.
 * @param {{ label: string, tabs: readonly { id: string, title: any }[], current: string, onChoose: (id: string) => void, children?: any }} props
 */
export function Tabs({ label, tabs, current, onChoose, children }) {
  const list = useRef(/** @type {HTMLElement | null} */ (null))
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0
    if (step === 0) return
    const at = tabs.findIndex((tab) => tab.id === current)
    const next = tabs[(at + step + tabs.length) % tabs.length]
    if (next === undefined) return
    onChoose(next.id)
  }
  return html`<div class="tabs">
    <div role="tablist" aria-label=${label} ref=${list} onKeyDown=${onKey}>
      ${tabs.map(
        (tab) => html`<button
          key=${tab.id}
          type="button"
          role="tab"
          id=${`tab-${tab.id}`}
          aria-selected=${tab.id === current ? 'true' : 'false'}
          aria-controls="tab-panel"
          tabindex=${tab.id === current ? 0 : -1}
          ref=${(/** @type {HTMLElement | null} */ element) => {
            if (element !== null && tab.id === current && list.current?.contains(document.activeElement))
              element.focus()
          }}
          onClick=${() => onChoose(tab.id)}
        >
          ${tab.title}
        </button>`
      )}
    </div>
    <div role="tabpanel" id="tab-panel" aria-labelledby=${`tab-${current}`} tabindex="0">${children}</div>
  </div>`
}

/**
 * Name and value of each thing that is known.
 * @param {{ entries: readonly (readonly [string, any])[] }} props
 */
export function Facts({ entries }) {
  return html`<dl class="facts">
    ${entries.filter(([, value]) => value !== undefined).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value ?? '–'}</dd></div>`)}
  </dl>`
}
