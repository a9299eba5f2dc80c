/** The text of a policy with line numbers, and the lines of one of its rules marked. */

import { html, useEffect, useMemo, useRef } from './ui.js'

/**
 * The text that places of an explanation lead into. `source`: where it lives; `note`: what is to be known of it; `changed`: it is
 * not the text that decided, so that rules are found in it by their names.
 * @typedef {{ text: string, source?: string | undefined, note?: any, changed?: boolean }} PolicyText
 * @typedef {{ line: number, column: number }} Place
 */

/** Lines of a text that are shown; what is longer is shown around the mark. */
const MOST_LINES = 3_000

/**
 * The lines of a rule in the text of its policy, from where it begins to where the next thing does; undefined: the text has no
 * such place. In a block of YAML a rule ends where the indentation does, in JSON and flow style with its bracket.
 * @param {string} text
 * @param {Place} place
 * @returns {{ from: number, to: number } | undefined}
 */
function linesOf(text, { line, column }) {
  const lines = text.split('\n')
  const first = lines[line - 1]
  if (first === undefined || first.length < column) return undefined
  if (first[column - 1] === '{') return { from: line, to: line + bracketEnd(lines.slice(line - 1), column - 1) }
  let to = line
  for (let at = line; at < lines.length; at++) {
    const one = lines[at] ?? ''
    const indent = one.search(/\S/)
    if (indent === -1 || one[indent] === '#') continue
    if (indent < column - 1) break
    to = at + 1
  }
  return { from: line, to }
}

/**
 * Place of the rule with this name; undefined if there is none, or several.
 * @param {string} text
 * @param {string | undefined} name
 * @returns {Place | undefined}
 */
function placeOfName(text, name) {
  const places = text.split('\n').flatMap((line, at) => {
    const [, before = '', value] = /^(\s*(?:-\s+)?)name:\s*(.*?)\s*$/.exec(line) ?? []
    return value !== undefined && value.replace(/^(["'])(.*)\1$/, '$2') === name
      ? [{ line: at + 1, column: before.length + 1 }]
      : []
  })
  return places.length === 1 ? places[0] : undefined
}

/**
 * Number of lines to the one that closes the bracket at `start` of the first line.
 * @param {readonly string[]} lines
 * @param {number} start
 */
function bracketEnd(lines, start) {
  let depth = 0
  let quote = ''
  for (const [at, line] of lines.entries()) {
    for (let i = at === 0 ? start : 0; i < line.length; i++) {
      const one = line[i] ?? ''
      if (quote !== '') {
        if (one === '\\' && quote === '"') i++
        else if (one === quote) quote = ''
      } else if (one === '"' || one === "'") quote = one
      else if (one === '{' || one === '[') depth++
      else if ((one === '}' || one === ']') && --depth === 0) return at
    }
  }
  return 0
}

/**
 * The text of a policy with line numbers. The lines of the rule are marked, and scrolled to.
 * @param {{ owner: string, policy: PolicyText, rule: { name: string, place: Place } | undefined, decides: boolean }} props
 */
export function MarkedPolicy({ owner, policy, rule, decides }) {
  const { text, source, note, changed = false } = policy
  const marked = useMemo(() => {
    const place = changed ? placeOfName(text, rule?.name) : rule?.place
    return place === undefined ? undefined : linesOf(text, place)
  }, [text, rule, changed])
  const box = useRef(/** @type {HTMLElement | null} */ (null))
  const first = useRef(/** @type {HTMLElement | null} */ (null))
  useEffect(() => {
    const line = first.current
    if (box.current === null || line === null || marked === undefined) return
    // Within its own box: the page stays where the reader is.
    box.current.scrollTop = Math.max(0, line.offsetTop - box.current.clientHeight / 3)
  }, [marked, text])
  const lines = text.replace(/\n$/, '').split('\n')
  const begin = lines.length <= MOST_LINES ? 0 : Math.max(0, (marked?.from ?? 1) - MOST_LINES / 2)
  const label = `Policy of ${owner}${marked === undefined ? '' : `, line ${marked.from} to ${marked.to} marked`}`
  return html`<figure class="policy-text">
    <figcaption>
      <h3>Policy of ${owner}</h3>
      ${source === undefined ? null : html`<span class="small">${source}</span>`}
      ${note === undefined ? null : html`<p class="note">${note}</p>`}
      ${
        rule !== undefined && marked === undefined && text !== ''
          ? html`<p class="note">The rule ${rule.name} is not found in this text.</p>`
          : marked === undefined
            ? null
            : html`<p class="small">
                ${decides ? 'The rule that decided' : 'The rule'}: ${marked.from === marked.to ? `line ${marked.from}` : `lines ${marked.from} to ${marked.to}`}
              </p>`
      }
    </figcaption>
    <div class="policy-lines" role="region" aria-label=${label} tabindex="0" ref=${box}>
      <ol start=${begin + 1}>
        ${lines.slice(begin, begin + MOST_LINES).map((line, i) => {
          const number = begin + i + 1
          const on = marked !== undefined && number >= marked.from && number <= marked.to
          return html`<li value=${number} class=${on ? 'marked' : ''} ref=${number === marked?.from ? first : undefined}>
            ${on ? html`<mark>${line === '' ? ' ' : line}</mark>` : html`<code>${line === '' ? ' ' : line}</code>`}
          </li>`
        })}
      </ol>
    </div>
  </figure>`
}
