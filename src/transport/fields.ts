import { isUtf8 } from 'node:buffer'
import { METHODS } from 'node:http'
import type { TrailerRules } from '../flow/exchange.js'
import { FIELD_KIND, kindOf } from '../flow/field-kinds.js'
import type { HeaderList } from '../flow/headers.js'

const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS)

/**
 * True for a method that no request may have: lower-case letters. Methods are case-sensitive (RFC 9110 9.1), but a server that ignores the case
 * would read another message than we do: no body behind the answer to `head`, a tunnel behind `connect`.
 */
export function isRefusedMethod(method: string): boolean {
  return !KNOWN_METHODS.has(method) && method !== method.toUpperCase()
}

/** Methods that give content a meaning: without content they say `Content-Length: 0` (RFC 9110 8.6). */
export function announcesNoContent(method: string): boolean {
  return method === 'POST' || method === 'PUT' || method === 'PATCH'
}

/** Lower-case names by length, so that most fields are recognised without changing their case. */
const FRAMING = new Map<number, readonly string[]>([
  [6, ['expect']],
  [10, ['connection', 'keep-alive']],
  [14, ['content-length']],
  [17, ['transfer-encoding']]
])

/** True for the fields that the engine writes itself: framing, connection and expectation. */
export function isEngineField(name: string): boolean {
  const candidates = FRAMING.get(name.length)
  return candidates?.includes(name.toLowerCase()) === true
}

/** True for a name that no trailer may have; `_` counts as `-`, as many servers read it. */
export function forbiddenTrailer(name: string): boolean {
  return kindOf(name.toLowerCase()) !== FIELD_KIND.pass
}

/** The trailers that may pass, those that `rules` refuse left out. */
export function allowedTrailers(list: HeaderList, rules?: TrailerRules): HeaderList {
  const kept: string[] = []
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    if (!forbiddenTrailer(name) && rules?.passes(name) !== false) kept.push(name, list[i + 1] as string)
  }
  return kept
}

/** Name and value pairs, the form in which node:http takes trailers. */
export function pairs(list: HeaderList): [string, string][] {
  const result: [string, string][] = []
  for (let i = 0; i < list.length; i += 2) result.push([list[i] as string, list[i + 1] as string])
  return result
}

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

/** The fields that can be written at all (RFC 9110 5.1, 5.5); a field that would break the framing is left out. */
export function writableFields(list: HeaderList): HeaderList {
  const kept: string[] = []
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    const value = list[i + 1] as string
    if (NAME.test(name) && VALUE.test(value)) kept.push(name, value)
  }
  return kept
}

/** A reason phrase that can be written (RFC 9112 4); undefined leaves the usual one. */
export function writableReason(reason: string | undefined): string | undefined {
  return reason !== undefined && VALUE.test(reason) ? reason : undefined
}

const RAW = /[\x80-\xff]/
const RAW_RUNS = /[\x80-\xff]+/g

/**
 * Percent-encodes UTF-8 in a request target whose characters are bytes, as its client ought to have done (RFC 3986 2.5). Empty, which no
 * target is, where its bytes are no UTF-8: servers disagree about such a path.
 */
export function encodedTarget(target: string): string {
  if (!RAW.test(target)) return target
  if (!isUtf8(Buffer.from(target, 'latin1'))) return ''
  return target.replace(RAW_RUNS, (run) => encodeURIComponent(Buffer.from(run, 'latin1').toString()))
}
