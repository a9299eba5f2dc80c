import { embedded, toRe2 } from '../cel.js'
import { close, EXACT, notHere, type RouteAction, type Template, type Verdict } from '../model.js'
import type { Directive } from './syntax.js'
import type { Variables } from './variables.js'

/** An action with the verdict of the statement that it comes from. */
export interface Converted {
  readonly action?: RouteAction
  readonly verdict: Verdict
}

const REDIRECTS = ['301', '302', '303', '307', '308']
export const UNKNOWN_VARIABLE = notHere(
  'it uses a variable that Sluice does not have',
  'write the value, or an expression of docs/reference/expressions.md'
)
const NO_RE2 = notHere('the expression needs look-around or back-references', 'write it in the syntax of RE2')

/** `return`, with `groups`: the pattern of the location or condition that `$1` belongs to. */
export function readReturn(
  { args, at }: Directive,
  variables: Variables,
  contentType: { readonly type: string; readonly byName: boolean },
  groups?: string
): Converted {
  const [first = '', second] = args
  const url = second ?? (/^(https?:\/\/|\$scheme)/.test(first) ? first : undefined)
  const code = url === first ? '302' : first
  if (code === '444') return { action: { kind: 'close', at }, verdict: EXACT }
  if (!/^\d{3}$/.test(code) || Number(code) < 200) {
    return { verdict: notHere(`there is no answer with the status ${code}`, 'use a status from 200 to 599') }
  }
  if (url !== undefined && REDIRECTS.includes(code)) {
    const status = Number(code) as 301
    if (!/\$[1-9]/.test(url)) {
      const to = variables.template(url)
      return to === undefined
        ? { verdict: UNKNOWN_VARIABLE }
        : { action: { kind: 'redirect', status, to, at }, verdict: EXACT }
    }
    const to = groups === undefined ? undefined : templateWithGroups(url, variables)
    if (to === undefined || groups === undefined) return { verdict: UNKNOWN_VARIABLE }
    return { action: { kind: 'redirect', status, ...urlPattern(groups, to, 'drop'), at }, verdict: EXACT }
  }
  if (url === undefined) return { action: { kind: 'respond', status: Number(code), at }, verdict: EXACT }
  const body = variables.template(url)
  if (body === undefined) return { verdict: UNKNOWN_VARIABLE }
  const { type, byName } = contentType
  const verdict = byName
    ? close(`the type is ${type}; nginx takes that of the extension of the path, if it has one`)
    : EXACT
  return { action: { kind: 'respond', status: Number(code), body, contentType: type, at }, verdict }
}

/** Effect of `rewrite`: an action, and whether the new path chooses a location again. */
export interface Rewrite extends Converted {
  readonly searchesAgain?: boolean
  /** Text of the new path up to its first variable. */
  readonly leadsTo?: string
  readonly pattern?: string
}

/** `rewrite pattern replacement [flag]`. The query of the request is kept, as nginx does. */
export function readRewrite({ args, at }: Directive, variables: Variables): Rewrite {
  const [source = '', replacement = '', flag] = args
  const pattern = toRe2(source)
  if (pattern === undefined) return { verdict: NO_RE2 }
  const dropsQuery = replacement.endsWith('?')
  const bare = dropsQuery ? replacement.slice(0, -1) : replacement
  const to = templateWithGroups(bare, variables)
  if (to === undefined) return { verdict: UNKNOWN_VARIABLE }
  const addsQuery = bare.includes('?') && !dropsQuery
  const whole = addsQuery ? `${to}${embedded("(req.url.query == '' ? '' : '&' + req.url.query)")}` : to
  const replacing = urlPattern(pattern, whole, dropsQuery || addsQuery ? 'drop' : 'keep')
  const isUrl = /^(https?:\/\/|\$scheme)/.test(bare)
  if (flag === 'permanent' || flag === 'redirect' || isUrl) {
    const status = flag === 'permanent' ? 301 : 302
    return { action: { kind: 'redirect', status, ...replacing, at }, verdict: EXACT }
  }
  const action: RouteAction = { kind: 'rewrite', ...replacing, at }
  return { action, verdict: EXACT, searchesAgain: flag !== 'break', leadsTo: bare.replace(/[$?].*$/s, ''), pattern }
}

/** A replacement with `$1` for groups and variables as expressions; undefined if a variable is unknown. */
export function templateWithGroups(text: string, variables: Variables): Template | undefined {
  const parts = text.split(/(\$[1-9]|\$\{[1-9]\})/)
  const converted = parts.map((part, index) => (index % 2 === 1 ? part.replace(/[{}]/g, '') : variables.template(part)))
  return converted.includes(undefined) ? undefined : converted.join('')
}

/**
 * Pattern and replacement of a path as those of path and query: nginx replaces all of the path, whatever part of it the
 * pattern matches, and keeps the query unless `query` is `drop`.
 */
export function urlPattern(pattern: string, to: Template, query: 'keep' | 'drop'): { pattern: string; to: Template } {
  const groups = countGroups(pattern)
  // The usual form: what the last group matches, and the query behind it, go to the end.
  if (query === 'keep' && /^\^[^.[]*\(\.\*\)\$?$/.test(pattern) && to.endsWith(`$${groups}`)) {
    return { pattern: pattern.replace(/\$$/, ''), to }
  }
  const body = pathOnly(pattern.replace(/^\^/, '').replace(/(^|[^\\])\$$/, '$1'))
  const start = pattern.startsWith('^') ? '^' : '^[^?]*?'
  const end = /(?:^|[^\\])\$$/.test(pattern) ? '' : '[^?]*'
  const rest = query === 'keep' ? '(\\?.*)?$' : '(?:\\?.*)?$'
  return { pattern: `${start}${body}${end}${rest}`, to: query === 'keep' ? `${to}$${groups + 1}` : to }
}

/** Number of groups that `$1` and the like can name. */
function countGroups(pattern: string): number {
  return [...pattern.matchAll(/\\.|\[(?:\\.|[^\]\\])*\]|\((?!\?)|\(\?P?</g)].filter(([part]) => part.startsWith('('))
    .length
}

/** The pattern with `.` and negated classes kept from running into the query. */
function pathOnly(pattern: string): string {
  return pattern.replace(/\\.|\[\^?(?:\\.|[^\]\\])*\]|\./g, (part) => {
    if (part === '.') return '[^?]'
    return part.startsWith('[^') && !part.includes('?') ? `${part.slice(0, -1)}?]` : part
  })
}
