import { EvaluationError, type Template } from '../../expression/expression.js'
import type { Flow } from '../../flow/flow.js'
import type { RequestTarget } from '../../flow/target.js'
import { type Regex, RegexCache } from '../../lib/regex.js'
import type { Scope } from '../action.js'
import { implies } from '../editor.js'
import { LEGACY_NAMES, legacyVariableIn } from './legacy-variables.js'

/** Longest URL that a replacement may make. */
const MAX_URL = 65_536
/** Patterns with `${…}` that one action keeps compiled. */
const KEPT_PATTERNS = 64

/** For editors: no variable of another proxy, and without `from` a URL that is not empty. */
export const REPLACEMENT = { not: { type: 'string', pattern: LEGACY_NAMES } }
export const WHOLE_URL = implies({ not: { required: ['from'] } }, { properties: { to: { pattern: '\\S' } } })

interface Replaced {
  /** What came out; a full URL unless `to` stood for the whole of it. */
  readonly text: string
  /** The first match and its groups; empty when nothing matched. */
  readonly matches: readonly string[]
}

/** Applies `from` → `to` to the URL of a request. Throws `EvaluationError`. */
export type UrlReplacing = (target: RequestTarget, flow: Flow) => Replaced

/**
 * Compiles `from` and `to` of `redirect` and `url-rewrite`.
 *
 * The pattern is searched in the full URL, scheme to query, unanchored. One that begins with a single `/` speaks of the
 * path and is searched behind the authority: `/.*` would otherwise begin at the slashes of `https://`. Without `from`,
 * `to` replaces the whole URL.
 */
export function compileReplacing(
  from: string | undefined,
  to: string,
  times: 'first' | 'all',
  scope: Scope
): UrlReplacing {
  const replacement = scope.template(to, ['to'])
  const legacy = legacyVariableIn(to)
  if (legacy !== undefined) scope.problem(['to'], 'CONFIG_INVALID', legacy)
  if (from === undefined) return (target, flow) => ({ text: bounded(replacement.text(flow)), matches: [target.url] })
  const pattern = compilePattern(from, scope)
  return (target, flow) => {
    const regex = pattern(flow)
    const aboutPath = regex.pattern.startsWith('/') && !regex.pattern.startsWith('//')
    const origin = aboutPath ? `${target.scheme}://${target.authority}` : ''
    const text = aboutPath ? target.uri : target.url
    const match = regex.exec(text)
    if (match === undefined) return { text: target.url, matches: [] }
    return { text: bounded(origin + replace(regex, text, replacement, times, flow)), matches: match.groups }
  }
}

function replace(regex: Regex, text: string, replacement: Template, times: 'first' | 'all', flow: Flow): string {
  const to = replacement.constant ?? replacement.text(flow)
  return times === 'first' ? regex.replaceFirst(text, to) : regex.replaceAll(text, to)
}

function compilePattern(from: string, scope: Scope): (flow: Flow) => Regex {
  const template = scope.template(from, ['from'])
  if (template.constant !== undefined) {
    const regex = scope.regex(template.constant, ['from'])
    return () => regex
  }
  const cache = new RegexCache(KEPT_PATTERNS)
  return (flow) => {
    const compiled = cache.get(template.text(flow))
    if (!compiled.ok) throw new EvaluationError('failed', `from is no pattern after interpolation: ${compiled.message}`)
    return compiled.regex
  }
}

function bounded(url: string): string {
  if (url.length > MAX_URL) throw new EvaluationError('failed', `the new URL is longer than ${MAX_URL} characters`)
  return url
}
