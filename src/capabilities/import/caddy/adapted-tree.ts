import type { SourcePosition } from '../model.js'
import type { CaddyDirective } from './syntax.js'

/** Keys and indexes that lead to a value of a JSON document. */
export type JsonPath = readonly (string | number)[]

/** JSON of `caddy adapt` whose values become directives. */
export interface AdaptedTree {
  at(path: JsonPath): SourcePosition
  /** Returns a directive at the position of a value. */
  line(path: JsonPath, name: string, args: readonly string[], block?: readonly CaddyDirective[]): CaddyDirective
}

/** Short names of placeholders by their long ones, which `caddy adapt` writes. */
const SHORT: readonly (readonly [long: RegExp, short: string])[] = [
  [/\{http\.request\.uri\.query\.([\w-]+)\}/g, '{query.$1}'],
  [/\{http\.request\.(header|cookie)\.([\w-]+)\}/g, '{$1.$2}'],
  [/\{http\.regexp\.([\w.]+)\}/g, '{re.$1}'],
  [/\{http\.request\.uri\.(path|query)\}/g, '{$1}'],
  [/\{http\.request\.(host|hostport|method|scheme|uri)\}/g, '{$1}'],
  [/\{http\.request\.remote\.(host|port)\}/g, '{remote_$1}'],
  [/\{http\.vars\.client_ip\}/g, '{client_ip}'],
  [/\{env\.([A-Za-z_]\w*)\}/g, '{$$$1}']
]

/** Returns a text of the JSON with the placeholders that Caddyfiles have. */
export function shortPlaceholders(text: string): string {
  return text.includes('{') ? SHORT.reduce((result, [long, short]) => result.replace(long, short), text) : text
}

/** Returns a duration of the JSON, a text or nanoseconds, as Caddyfiles write it. */
export function durationText(value: unknown): string {
  return typeof value === 'number' ? `${value / 1e9}s` : typeof value === 'string' ? value : ''
}

export const toList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
