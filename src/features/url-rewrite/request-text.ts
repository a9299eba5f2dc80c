import { EvaluationError, type Template } from '../../expression/expression.js'
import type { Flow } from '../../flow/flow.js'
import type { RequestTarget } from '../../flow/target.js'
import { type Regex, RegexTooSlow } from '../../lib/regex.js'

/** Longest URL that a replacement may make. */
const MAX_URL = 65_536
/** How long the matches of one URL may take, milliseconds: no pattern of use needs a hundredth of it. */
const LONGEST = 50

/** Text between these two is of the request. Neither stands in a URL, nor in a replacement: they are taken out of it. */
const BEGIN = '\uE000'
const END = '\uE001'
const MARKS = /[\uE000\uE001]/g
/**
 * Where the authority stands in a URL with marks: browsers take any number of slashes behind a scheme for two (WHATWG URL). Two slashes at
 * the beginning count where the policy wrote both; others are merged into one.
 */
const MARKED_AUTHORITY = /^(?:[^/?#]*:[/\uE000\uE001]*|\/\/)([^/?#]*)/
/** What is put behind a host does not go on with it. */
export const BEGINS_BEHIND_HOST = /^[\uE000\uE001]*(?:[/?#]|$)/
/** A host that ends in text of the policy's, behind labels of the request's. */
const OWN_END = /^(?:[^\uE000\uE001]*\uE000[A-Za-z0-9.-]*\uE001(?=\.))+[^\uE000\uE001]+$/

/** Variables that say which place was asked for, not what of it. */
const OF_PLACE: ReadonlySet<string> = new Set(
  'req.host req.method req.version req.url.authority req.url.host req.url.port req.url.scheme'.split(' ')
)

/** `to` with its expressions evaluated; what those gave that read more of the request is marked. */
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

/** `origin`: how many characters of `text` are scheme and authority; what comes behind them is marked. */
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
 * The URL without its marks; undefined when text of the request has got into its host. The host may stay what it is, and
 * begin with labels of the request's where the policy says how it ends.
 */
export function settled(text: string, target: RequestTarget): string | undefined {
  const url = bounded(text.replace(MARKS, ''))
  const found = MARKED_AUTHORITY.exec(text)
  if (found === null) return url
  const authority = (found[1] as string).replace(/[\uE000\uE001]+$/, '')
  // The piece in which it begins may have begun before.
  const before = found[0].slice(0, found[0].length - (found[1] as string).length)
  const marks = before.lastIndexOf(BEGIN) > before.lastIndexOf(END) ? BEGIN + authority : authority
  if (marks.search(MARKS) === -1 || OWN_END.test(marks)) return url
  return authority.replace(MARKS, '').toLowerCase() === target.authority ? url : undefined
}

function bounded(url: string): string {
  if (url.length > MAX_URL) throw new EvaluationError('failed', `the new URL is longer than ${MAX_URL} characters`)
  return url
}
