/** Filters of recorded requests: in the address of the page, as a form, and one by one. */

import { Field, go, html } from './ui.js'

/** Criteria of the filter, with the words of `sluice log`. */
const CRITERIA = [
  { name: 'status', hint: '429, 4xx, 400-499' },
  { name: 'client', hint: 'address or network' },
  { name: 'route', hint: 'example.com/api' },
  { name: 'text', hint: 'stands anywhere' },
  { name: 'host', hint: 'shop.example.com, *.example.com' },
  { name: 'method', hint: 'POST' },
  { name: 'rule', hint: 'name' },
  { name: 'action', hint: 'rate-limit' },
  { name: 'site', hint: 'shop.example.com' },
  { name: 'since', hint: '2026-01-31T12:00:00Z' },
  { name: 'until', hint: '2026-01-31T13:00:00Z' }
]
const ALWAYS_SHOWN = 4
/** Names of all criteria. */
export const NAMES = ['where', ...CRITERIA.map(({ name }) => name)]
/**
 * The place of the page with this filter, or of an exchange below it.
 * @typedef {readonly (readonly [string, string])[]} Filter
 * @param {Filter} filter
 * @param {string} [id]
 */
export function placeOf(filter, id) {
  const query = new URLSearchParams(/** @type {any} */ (filter)).toString()
  return `traffic${id === undefined ? '' : `/${id}`}${query === '' ? '' : `?${query}`}`
}

/**
 * The filter with another value of one name; without it where there is none.
 * @param {Filter} filter
 * @param {string} name
 * @param {string} [value]
 * @returns {Filter}
 */
export function withValue(filter, name, value) {
  const others = filter.filter(([one]) => one !== name)
  return value === undefined ? others : [...others, [name, value]]
}

/**
 * The criterion that an error of the API is about.
 * @param {any} problem
 * @returns {string | undefined}
 */
export function fieldOf(problem) {
  const field = problem?.details?.field
  return NAMES.includes(field) ? field : undefined
}

/**
 * The form of the filter; what the API says of a field stands below it.
 * @param {{ filter: Filter, problem: any, form: any }} props
 */
export function Filters({ filter, problem, form }) {
  const values = new Map(filter)
  const apply = (/** @type {Event} */ event) => {
    event.preventDefault()
    const data = new FormData(/** @type {HTMLFormElement} */ (event.currentTarget))
    const given = NAMES.flatMap((name) => {
      const value = String(data.get(name) ?? '').trim()
      return value === '' ? [] : [/** @type {const} */ ([name, value])]
    })
    go(placeOf(given))
  }
  const wrong = fieldOf(problem)
  const field = (
    /** @type {{ name: string, hint: string }} */ { name, hint }
  ) => html`<${Field} key=${name} label=${name}>
    <input
      name=${name}
      placeholder=${hint}
      autocomplete="off"
      spellcheck=${false}
      defaultValue=${values.get(name) ?? ''}
      aria-invalid=${wrong === name ? 'true' : undefined}
      aria-describedby=${wrong === name ? 'filter-problem' : undefined}
    />
  <//>`
  const more = CRITERIA.slice(ALWAYS_SHOWN)
  return html`<form class="filters" role="search" aria-label="Filter" onSubmit=${apply} ref=${form}>
    <div class="wide">${field({ name: 'where', hint: 'CEL: res.status_code >= 400' })}</div>
    ${CRITERIA.slice(0, ALWAYS_SHOWN).map(field)}
    <details open=${more.some(({ name }) => values.has(name))}>
      <summary>More</summary>
      <div class="filters">${more.map(field)}</div>
    </details>
    <button type="submit">Filter</button>
    ${wrong === undefined ? null : html`<${WrongFilter} problem=${problem} source=${values.get(wrong) ?? ''} />`}
  </form>`
}

/** Problem that the API reports for a criterion; its place in an expression is shown below it. @param {{ problem: any, source: string }} props */
function WrongFilter({ problem, source }) {
  const [, line, column] = /line (\d+), column (\d+)/.exec(problem.message) ?? []
  const text = line === undefined ? undefined : source.split('\n')[Number(line) - 1]
  return html`<div class="problem" role="alert" id="filter-problem">
    <p><strong>${problem.message}</strong></p>
    ${text === undefined ? null : html`<pre>${text}${'\n'}${' '.repeat(Math.max(0, Number(column) - 1))}^</pre>`}
  </div>`
}

/** Active criteria, each with a button that removes it. @param {{ filter: Filter }} props */
export function Chips({ filter }) {
  if (filter.length === 0) return null
  return html`<ul class="chips" aria-label="Filtered by">
    ${filter.map(
      ([name, value]) => html`<li key=${name}>
        <span class="badge info">${name} <code>${value}</code>${' '}
          <a class="chip-out" href=${`#/${placeOf(withValue(filter, name))}`} aria-label=${`Leave out ${name}`}>×</a>
        </span>
      </li>`
    )}
    <li><a href="#/traffic">Everything</a></li>
  </ul>`
}
