/** A text field for policies: line numbers, marks where something is wrong, and completion. */

import { html, useMemo, useRef, useState } from './ui.js'

/**
 * Something wrong at a place; line and column count from 1.
 * @typedef {{ severity: string, code: string, message: string, line: number, column: number, length: number }} Mark
 * A thing that can be written: what is inserted, and what it is.
 * @typedef {{ text: string, detail: string, insert?: string }} Suggestion
 */

const MOST_SHOWN = 60

/** @typedef {{ from: number, suggestions: readonly Suggestion[], chosen: number }} Listed */

/** @param {Listed | undefined} listed */
const shownOf = (listed) => listed?.suggestions.slice(0, MOST_SHOWN) ?? []

/**
 * The editor. `suggest(text, at)` answers what can stand at a place and where the word there begins.
 * @param {{ label: string, value: string, onInput: (text: string) => void, marks?: readonly Mark[], suggest?: (text: string, at: number) => { from: number, suggestions: readonly Suggestion[] }, readOnly?: boolean, rows?: number }} props
 */
export function Editor({ label, value, onInput, marks = [], suggest, readOnly = false, rows = 18 }) {
  const area = useRef(/** @type {HTMLTextAreaElement | null} */ (null))
  const behind = useRef(/** @type {HTMLElement | null} */ (null))
  const gutter = useRef(/** @type {HTMLElement | null} */ (null))
  const [open, show] = useState(/** @type {Listed | undefined} */ (undefined))
  // Keys may follow one another faster than the page is drawn: they count on what is now, not on what was drawn last.
  const now = useRef(open)
  const setOpen = (/** @type {Listed | undefined} */ next) => {
    now.current = next
    show(next)
  }
  const lines = useMemo(() => value.split('\n'), [value])
  const worst = useMemo(() => worstByLine(marks), [marks])
  const list = shownOf(open)

  const scrolled = () => {
    const { scrollTop = 0, scrollLeft = 0 } = area.current ?? {}
    if (behind.current !== null) behind.current.style.transform = `translate(${-scrollLeft}px, ${-scrollTop}px)`
    if (gutter.current !== null) gutter.current.scrollTop = scrollTop
  }
  const look = (/** @type {string} */ text, /** @type {number} */ at, /** @type {boolean} */ asked) => {
    if (suggest === undefined || readOnly) return
    const { from, suggestions } = suggest(text, at)
    const typed = at - from
    setOpen(suggestions.length > 0 && (asked || typed > 0) ? { from, suggestions, chosen: 0 } : undefined)
  }
  const write = (/** @type {number} */ from, /** @type {string} */ text) => {
    const element = area.current
    if (element === null) return
    element.setRangeText(text, from, element.selectionEnd, 'end')
    onInput(element.value)
  }
  const take = (/** @type {Suggestion} */ one) => {
    if (now.current === undefined) return
    const { from } = now.current
    setOpen(undefined)
    write(from, one.insert ?? one.text)
    area.current?.focus()
  }
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    const element = area.current
    if (element === null) return
    const listed = now.current
    const shown = shownOf(listed)
    if (event.key === ' ' && event.ctrlKey) {
      event.preventDefault()
      look(element.value, element.selectionStart, true)
    } else if (listed !== undefined && shown.length > 0) {
      const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
      const chosen = shown[listed.chosen]
      if (step !== 0) {
        event.preventDefault()
        setOpen({ ...listed, chosen: (listed.chosen + step + shown.length) % shown.length })
      } else if ((event.key === 'Enter' || event.key === 'Tab') && chosen !== undefined) {
        event.preventDefault()
        take(chosen)
      } else if (event.key === 'Escape') {
        event.preventDefault()
        setOpen(undefined)
      }
    } else if (event.key === 'Enter' && !readOnly) {
      // A new line begins where the one before it does.
      const before = element.value.slice(0, element.selectionStart)
      const indent = /^[ ]*/.exec(before.slice(before.lastIndexOf('\n') + 1))?.[0] ?? ''
      if (indent === '') return
      event.preventDefault()
      write(element.selectionStart, `\n${indent}`)
    }
  }
  const typed = (/** @type {any} */ event) => {
    onInput(event.target.value)
    look(event.target.value, event.target.selectionStart, false)
  }
  return html`<div class="editor">
    <div class="editor-box">
      <div class="gutter" aria-hidden="true" ref=${gutter}>
        ${lines.map((_, at) => html`<span class=${worst.get(at + 1) ?? ''}>${at + 1}</span>`)}
      </div>
      <div class="paper">
        <pre class="behind" aria-hidden="true" ref=${behind}>${lines.map(
          (line, at) =>
            html`<span>${marked(
              line,
              marks.filter((mark) => mark.line === at + 1)
            )}${'\n'}</span>`
        )}</pre>
        <textarea
          ref=${area}
          aria-label=${label}
          aria-autocomplete=${suggest === undefined ? undefined : 'list'}
          aria-controls=${list.length > 0 ? 'suggestions' : undefined}
          aria-activedescendant=${list.length > 0 && open !== undefined ? `suggestion-${open.chosen}` : undefined}
          spellcheck=${false}
          autocomplete="off"
          autocapitalize="off"
          wrap="off"
          rows=${rows}
          readonly=${readOnly}
          value=${value}
          onInput=${typed}
          onKeyDown=${onKey}
          onScroll=${scrolled}
          onBlur=${() => setOpen(undefined)}
        ></textarea>
      </div>
    </div>
    ${
      list.length === 0 || open === undefined
        ? null
        : html`<ul class="suggestions" id="suggestions" role="listbox" aria-label="Suggestions">
            ${list.map(
              (one, at) => html`<li
                key=${one.text}
                id=${`suggestion-${at}`}
                role="option"
                aria-selected=${at === open.chosen ? 'true' : 'false'}
                ref=${(/** @type {HTMLElement | null} */ element) => {
                  if (at === open.chosen) element?.scrollIntoView({ block: 'nearest' })
                }}
                onMouseDown=${(/** @type {Event} */ event) => {
                  event.preventDefault()
                  take(one)
                }}
              >
                <code>${one.text}</code> <small>${one.detail}</small>
              </li>`
            )}
          </ul>`
    }
  </div>`
}

/** @param {readonly Mark[]} marks */
function worstByLine(marks) {
  const worst = new Map()
  for (const { line, severity } of marks) if (worst.get(line) !== 'error') worst.set(line, severity)
  return worst
}

/**
 * A line with what is wrong in it underlined.
 * @param {string} line
 * @param {readonly Mark[]} marks
 */
function marked(line, marks) {
  const parts = []
  let at = 0
  for (const { column, length, severity } of [...marks].sort((a, b) => a.column - b.column)) {
    const from = Math.max(Math.min(column - 1, line.length - 1), at)
    const to = Math.max(Math.min(from + length, line.length), from)
    if (to === from) continue
    parts.push(line.slice(at, from), html`<mark class=${severity}>${line.slice(from, to)}</mark>`)
    at = to
  }
  parts.push(line.slice(at))
  return parts
}

/**
 * What can be written at a place of a policy, from the language that the API describes.
 * @param {any} language
 */
export function suggester(language) {
  const names = expressionNames(language)
  return (/** @type {string} */ text, /** @type {number} */ at) => {
    const line = text.slice(text.lastIndexOf('\n', at - 1) + 1, at)
    if (insideExpression(text, at, line)) {
      const word = /[\w.]*$/.exec(line)?.[0] ?? ''
      return { from: at - word.length, suggestions: matching(names, word) }
    }
    const word = /[\w-]*$/.exec(line)?.[0] ?? ''
    return { from: at - word.length, suggestions: matching(keysAt(language, text, at, line), word) }
  }
}

/**
 * Those that begin with what is written go before those that hold it.
 * @param {readonly Suggestion[]} all
 * @param {string} word
 */
function matching(all, word) {
  const lower = word.toLowerCase()
  const begins = all.filter(({ text }) => text.toLowerCase().startsWith(lower))
  const holds = all.filter(({ text }) => !begins.some((one) => one.text === text) && text.toLowerCase().includes(lower))
  const found = lower === '' ? all : [...begins, ...holds]
  return found.length === 1 && found[0]?.text === word ? [] : found
}

/** @param {any} language @returns {Suggestion[]} */
function expressionNames({ variables, functions }) {
  const found = new Map()
  for (const { path, type, optional, description } of variables) {
    found.set(path, { text: path, detail: `${type}${optional ? ', may be absent' : ''}. ${description}` })
  }
  for (const { signature, description } of functions) {
    const name = /([\w.]+)\(/.exec(
      signature.replace(/^(?:string|list|map|bytes|int|double|timestamp|duration|dyn)(?:<[^(]*>)?\./, '')
    )?.[1]
    if (name !== undefined && !found.has(name))
      found.set(name, { text: name, detail: `${signature}. ${description}`, insert: `${name}(` })
  }
  return [...found.values()].sort((a, b) => (a.text < b.text ? -1 : 1))
}

/**
 * Does an expression stand here: below `expressions:` or `bucket_key:`, behind `capacity:` or `cost:`, or in a `${…}`?
 * @param {string} text
 * @param {number} at
 * @param {string} line
 */
function insideExpression(text, at, line) {
  const open = line.lastIndexOf('${')
  if (open !== -1 && !line.slice(open).includes('}')) return true
  if (/\b(?:expressions|bucket_key):\s*\[[^\]]*$/.test(line) && /["'][^"']*$|\[[^"']*$/.test(line)) return true
  if (/\b(?:capacity|cost):\s*["'][^"']*$/.test(line)) return true
  if (!/^\s*-\s/.test(line)) return false
  const indent = line.search(/\S/)
  for (const before of text
    .slice(0, at - line.length)
    .split('\n')
    .reverse()) {
    if (before.trim() === '') continue
    const key = /^(\s*)(?:- )*(\w+):\s*$/.exec(before)
    if (key !== null && before.search(/[\w]/) <= indent && !/^\s*-\s+[^\w]/.test(before)) {
      return key[2] === 'expressions' || key[2] === 'bucket_key'
    }
    if (before.search(/\S/) < indent) return false
  }
  return false
}

const PHASES = {
  on_tcp_connect: 'once for each new connection',
  on_http_request: 'for each request, before it is forwarded',
  on_http_response: 'for each response, before it goes to the client',
  on_event_stream_message: 'for each message of a stream of events'
}
const RULE = { name: 'for people and logs', expressions: 'all of them must be true', actions: 'what is done then' }

/**
 * Keys and values of YAML by what stands around the place.
 * @param {any} language
 * @param {string} text
 * @param {number} at
 * @param {string} line
 * @returns {Suggestion[]}
 */
function keysAt({ actions, schema }, text, at, line) {
  if (/\btype:\s*[\w-]*$/.test(line)) {
    return actions.map((/** @type {any} */ one) => ({ text: one.type, detail: one.summary }))
  }
  const asKeys = (/** @type {Record<string, string>} */ all) =>
    Object.entries(all).map(([name, detail]) => ({ text: name, detail, insert: `${name}: ` }))
  if (/^[\w]*$/.test(line)) return asKeys(PHASES)
  const before = text.slice(0, at)
  const config = /\bconfig:(?:\s*\{[^}]*|\s*(?:\n[ ]+[^\n]*)*)$/.exec(before)
  const type = /.*\btype:\s*["']?([\w-]+)/s.exec(before)?.[1]
  const fields = schema.$defs[`${type}.config`]?.properties
  if (config !== null && fields !== undefined && !/actions:|- type:/.test(config[0]) && deeper(config[0], line)) {
    return asKeys(
      Object.fromEntries(
        Object.entries(fields).map(([name, field]) => [name, String(/** @type {any} */ (field).description ?? '')])
      )
    )
  }
  if (/actions:\s*\[?\s*\{?[^}]*$/.test(line) || /^\s*-\s*[\w]*$/.test(line) || /^\s+[\w]*$/.test(line)) {
    return asKeys({ ...RULE, type: 'which action', config: 'the settings of the action' })
  }
  return []
}

/**
 * Is the line within the block that `config:` opens?
 * @param {string} config
 * @param {string} line
 */
function deeper(config, line) {
  if (config.includes('{')) return true
  const first = config.split('\n').find((one, at) => at > 0 && one.trim() !== '')
  return first === undefined || line.search(/\S|$/) >= first.search(/\S|$/)
}
