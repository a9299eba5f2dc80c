import { celOfTest, celText, negated } from './cel.js'
import type { RouteTest } from './model.js'

/** CEL of the first value of a request field; '' without the field. */
export const requestField = (name: string) =>
  `(hasReqHeader(${celText(name.toLowerCase())}) ? getReqHeader(${celText(name.toLowerCase())})[0] : '')`

/** CEL of the first value of a query parameter; '' without it. */
export const queryParameter = (name: string) =>
  `(hasQueryParam(${celText(name)}) ? getQueryParam(${celText(name)})[0] : '')`

/** CEL of the value of a cookie; '' without it. */
export const cookieValue = (name: string) =>
  `(hasReqCookie(${celText(name)}) ? string(getReqCookie(${celText(name)}).value) : '')`

/** CEL that is true if one of the expressions is. */
export function anyOf(expressions: readonly string[]): string {
  return expressions.length === 1 ? (expressions[0] as string) : `(${expressions.join(' || ')})`
}

/** CEL that is true if all expressions are; `true` for none. */
export function allOf(expressions: readonly string[]): string {
  const distinct = [...new Set(expressions)].filter((cel) => cel !== 'true')
  return distinct.length === 0 ? 'true' : distinct.length === 1 ? (distinct[0] as string) : `(${distinct.join(' && ')})`
}

/** CEL of tests that must all be true; undefined if there is none that can be false. */
export function conditionOf(tests: readonly RouteTest[]): string | undefined {
  const cel = allOf(tests.map(celOfTest))
  return cel === 'true' ? undefined : cel
}

/** Returns the CEL expression that is true where `cel` is false. */
export const noneOf = (cel: string) => (cel === 'true' ? 'false' : negated(cel))

const PRIVATE = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '127.0.0.0/8', 'fd00::/8', '::1/128']

/** CEL that is true for clients of these networks; undefined if one is no network. */
export function clientIn(networks: readonly string[]): string | undefined {
  const all = networks.flatMap((network) => (network === 'private_ranges' ? PRIVATE : [network]))
  const ranges = all.map(networkOf)
  if (ranges.length === 0 || ranges.some((range) => range === undefined)) return undefined
  return anyOf(ranges.map((range) => `conn.client_ip.inCidrRange(${celText(range as string)})`))
}

/** A network with its length: an address stands for itself. Undefined if the text is neither. */
export function networkOf(text: string): string | undefined {
  if (!/^(?:\d{1,3}(?:\.\d{1,3}){3}|[\da-f:]*:[\da-f:.]*)(?:\/\d{1,3})?$/i.test(text)) return undefined
  return text.includes('/') ? text : `${text}/${text.includes(':') ? 128 : 32}`
}

/** CEL that compares the host of the request with a name that may begin with `*.`. */
export function hostIs(name: string): string {
  return name.startsWith('*.')
    ? `req.url.host.endsWith(${celText(name.slice(1).toLowerCase())})`
    : `req.url.host == ${celText(name.toLowerCase())}`
}

/** Escapes the characters that have a meaning in RE2. */
export const escapeRegex = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')

/** Returns the tests of a CEL expression; undefined without one. */
export const expressionTest = (cel: string | undefined): readonly RouteTest[] | undefined =>
  cel === undefined ? undefined : [{ kind: 'expression', cel }]
