import { Passes, type Steps } from '../../../lib/slices.js'
import type { LineRange } from '../../../policy/block-yaml.js'

/** Lines of the sites in a site file in block style. */
export interface SiteLines {
  /** Column of the names of the sites, from 0. */
  readonly indent: number
  /** Lines of each site, in order and without a gap. */
  readonly sites: readonly LineRange[]
  /** Lines of all of them. */
  readonly all: LineRange
}

const TAB = 0x09
const NEWLINE = 0x0a
const RETURN = 0x0d
const SPACE = 0x20
const HASH = 0x23
const DASH = 0x2d
const KEY = 'sites:'

/**
 * Finds the lines of each site without parsing. Returns undefined if the text has no sites in block style. The result is
 * valid if every range, and the rest of the text, can be parsed separately.
 */
export function* findSiteLines(text: string): Steps<SiteLines | undefined> {
  const key = text.startsWith(KEY) ? 0 : text.indexOf(`\n${KEY}`) + 1
  if (key === 0 && !text.startsWith(KEY)) return undefined
  const header = text.indexOf('\n', key)
  if (header === -1 || !/^ *(?: #.*)?$/.test(text.slice(key + KEY.length, header))) return undefined
  const starts: number[] = []
  const passes = new Passes()
  let indent = 0
  let at = header + 1
  while (at < text.length) {
    if (passes.due()) yield
    let content = at
    while (text.charCodeAt(content) === SPACE) content++
    if (starts.length > 0 && content - at > indent) {
      // A line of the preceding site.
      const next = text.indexOf('\n', content)
      at = next === -1 ? text.length : next + 1
      continue
    }
    const code = text.charCodeAt(content)
    const isContent = content < text.length && code !== NEWLINE && code !== HASH
    if (isContent) {
      const column = content - at
      if (code === TAB || code === RETURN) return undefined
      if (column === 0) break
      if (starts.length === 0) indent = column
      if (column < indent) return undefined
      if (column === indent) {
        if (code === DASH) return undefined
        starts.push(at)
      }
    }
    const next = text.indexOf('\n', content)
    at = next === -1 ? text.length : next + 1
  }
  const [first] = starts
  if (first === undefined) return undefined
  const sites = starts.map((start, index) => ({ start, end: starts[index + 1] ?? at }))
  return { indent, sites, all: { start: first, end: at } }
}
