import { isUtf8 } from 'node:buffer'
import { METHODS } from 'node:http'
import type { TrailerRules } from '../flow/exchange.js'
import { FIELD_KIND, kindOf } from '../flow/field-kinds.js'
import type { HeaderList } from '../flow/headers.js'

const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS)

/**
 * Returns whether a method is forbidden: lower-case spellings. Methods are case-sensitive (RFC 9110 9.1), but a server that ignores the
 * case would read another message: no body after the response to `head`, a tunnel after `connect`.
 */
export function isRefusedMethod(method: string): boolean {
  return !KNOWN_METHODS.has(method) && method !== method.toUpperCase()
}

/** Returns whether the method sends `Content-Length: 0` without content (RFC 9110 8.6). */
export function announcesNoContent(method: string): boolean {
  return method === 'POST' || method === 'PUT' || method === 'PATCH'
}

/** Lower-case names by length, so that most fields are recognized without changing their case. */
const FRAMING = new Map<number, readonly string[]>([
  [6, ['expect']],
  [10, ['connection', 'keep-alive']],
  [14, ['content-length']],
  [17, ['transfer-encoding']]
])

/** Returns whether the engine writes the field itself: framing, connection and expectation. */
export function isEngineField(name: string): boolean {
  const candidates = FRAMING.get(name.length)
  return candidates?.includes(name.toLowerCase()) === true
}

/** Returns whether a trailer must not have this name; `_` counts as `-`, as many servers read it. */
export function forbiddenTrailer(name: string): boolean {
  return kindOf(name.toLowerCase()) !== FIELD_KIND.pass
}

/** Removes forbidden trailers and those that `rules` reject. */
export function allowedTrailers(list: HeaderList, rules?: TrailerRules): HeaderList {
  const kept: string[] = []
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    if (!forbiddenTrailer(name) && rules?.passes(name) !== false) kept.push(name, list[i + 1] as string)
  }
  return kept
}

/** Converts a list to name and value pairs for node:http trailers. */
export function pairs(list: HeaderList): [string, string][] {
  const result: [string, string][] = []
  for (let i = 0; i < list.length; i += 2) result.push([list[i] as string, list[i + 1] as string])
  return result
}

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** Removes fields that cannot be written (RFC 9110 5.1, 5.5), because they would break the framing. */
export function writableFields(list: HeaderList): HeaderList {
  const kept: string[] = []
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    const value = list[i + 1] as string
    if (NAME.test(name) && VALUE.test(value)) kept.push(name, value)
  }
  return kept
}

/** Returns a valid reason phrase (RFC 9112 4); undefined for the standard one. */
export function writableReason(reason: string | undefined): string | undefined {
  return reason !== undefined && VALUE.test(reason) ? reason : undefined
}

const RAW = /[\x80-\xff]/
const RAW_RUNS = /[\x80-\xff]+/g

/**
 * Percent-encodes UTF-8 in a request target whose characters are bytes, as the client should have (RFC 3986 2.5). Returns '', which is no
 * valid target, for invalid UTF-8: servers disagree about such a path.
 */
export function encodedTarget(target: string): string {
  if (!RAW.test(target)) return target
  if (!isUtf8(Buffer.from(target, 'latin1'))) return ''
  return target.replace(RAW_RUNS, (run) => encodeURIComponent(Buffer.from(run, 'latin1').toString()))
}
