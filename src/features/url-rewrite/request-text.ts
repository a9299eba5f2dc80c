import { EvaluationError, type Template } from '../../expression/expression.js'
import type { Flow } from '../../flow/flow.js'
import type { RequestTarget } from '../../flow/target.js'
import { type Regex, RegexTooSlow } from '../../lib/regex.js'

/** Maximum length of a resulting URL. */
const MAX_URL = 65_536
/** Timeout of the matches in one URL (ms): useful patterns need less than a hundredth. */
const LONGEST = 50

/** Mark before request data. It is removed from URLs and replacements, which do not contain it. */
const BEGIN = '\uE000'
/** Mark after request data. */
const END = '\uE001'
/** Both marks. */
const MARKS = /[\uE000\uE001]/g
/**
 * Authority in a URL with marks: browsers treat any number of slashes after a scheme as two (WHATWG URL). Two leading slashes count if the
 * policy wrote both; others are merged.
 */
const MARKED_AUTHORITY = /^(?:[^/?#]*:[/\uE000\uE001]*|\/\/)([^/?#]*)/
/** Start of a replacement that ends the host. */
export const BEGINS_BEHIND_HOST = /^[\uE000\uE001]*(?:[/?#]|$)/
/** Host that ends with text of the policy, after labels of the request. */
const OWN_END = /^(?:[^\uE000\uE001]*\uE000[A-Za-z0-9.-]*\uE001(?=\.))+[^\uE000\uE001]+$/

/** Variables about the requested endpoint, not about its content. */
const OF_PLACE: ReadonlySet<string> = new Set(
  'req.host req.method req.version req.url.authority req.url.host req.url.port req.url.scheme'.split(' ')
)

/** Evaluates `to` and marks values that contain other request data. */
export function textOf(to: Template, flow: Flow): string {
  if (to.constant !== undefined) return to.constant.replace(MARKS, '')
  return to.text(flow, (text, variables) => {
    const clean = text.replace(MARKS, '')
    const isOwn = variables.size > 0 && [...variables].every((name) => !name.startsWith('req.') || OF_PLACE.has(name))
    return isOwn ? clean : marked(clean)
  })
}

function marked(text: string): string {
  return text === '' ? '' : BEGIN + text + END
}

/** Replaces matches. `origin`: characters of `text` that are scheme and authority; the rest is marked. */
export function replaceMatches(regex: Regex, text: string, origin: number, to: string, times: 'first' | 'all'): string {
  const shown = (piece: string, start: number): string => {
    const own = Math.max(0, Math.min(piece.length, origin - start))
    return piece.slice(0, own) + marked(piece.slice(own))
  }
  if (times === 'first') return regex.replaceFirst(text, to, shown)
  try {
    return regex.replaceAll(text, to, LONGEST, shown)
  } catch (error) {
    if (!(error instanceof RegexTooSlow)) throw error
    throw new EvaluationError('failed', 'the matches of the pattern in the URL take too long')
  }
}

/**
 * Removes the marks; undefined if request data is in the host. The host may be unchanged, or begin with labels of the request if the policy
 * wrote its end.
 */
export function settled(text: string, target: RequestTarget): string | undefined {
  const url = bounded(text.replace(MARKS, ''))
  const found = MARKED_AUTHORITY.exec(text)
  if (found === null) return url
  const authority = (found[1] as string).replace(/[\uE000\uE001]+$/, '')
  // Its marked piece may have started earlier.
  const before = found[0].slice(0, found[0].length - (found[1] as string).length)
  const marks = before.lastIndexOf(BEGIN) > before.lastIndexOf(END) ? BEGIN + authority : authority
  if (marks.search(MARKS) === -1 || OWN_END.test(marks)) return url
  return authority.replace(MARKS, '').toLowerCase() === target.authority ? url : undefined
}

function bounded(url: string): string {
  if (url.length > MAX_URL) throw new EvaluationError('failed', `the new URL is longer than ${MAX_URL} characters`)
  return url
}
