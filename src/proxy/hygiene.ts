import type { HeaderList } from '../flow/headers.js'
import { type HeaderKinds, KIND } from './header-kinds.js'

/** Connection options that name no header field of their own. */
const PLAIN_OPTIONS = new Set(['close', 'keep-alive', 'upgrade', 'te', 'keep-alive, upgrade', 'upgrade, keep-alive'])

/**
 * The fields of a request that may go on to the upstream: without those of one hop and those that `Connection` names
 * (RFC 9110 7.6.1), without aliases, and without claims about where it came from, unless `trusted`.
 * `websocket`: the exchange asks for that upgrade, so its field stays.
 */
export function cleanRequest(kinds: HeaderKinds, list: HeaderList, trusted: boolean, websocket: boolean): string[] {
  const clean: string[] = []
  let options: Set<string> | undefined
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    const value = list[i + 1] as string
    switch (kinds.of(name)) {
      case KIND.pass:
      case KIND.fixed:
        clean.push(name, value)
        break
      case KIND.connection:
        options = addOptions(options, value)
        break
      case KIND.forwarded:
        if (trusted) clean.push(name, value)
        break
      case KIND.te:
        if (asksForTrailers(value)) clean.push(name, 'trailers')
        break
      case KIND.upgrade:
        if (websocket) clean.push(name, 'websocket')
        break
    }
  }
  return options === undefined ? clean : withoutNamed(kinds, clean, options)
}

/** The fields of an answer that may go on to the client. An upstream cannot write `sluice-error-code`. */
export function cleanResponse(kinds: HeaderKinds, list: HeaderList, switched: boolean): string[] {
  const clean: string[] = []
  let options: Set<string> | undefined
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    const value = list[i + 1] as string
    switch (kinds.of(name)) {
      case KIND.pass:
      case KIND.fixed:
      case KIND.forwarded:
        clean.push(name, value)
        break
      case KIND.connection:
        options = addOptions(options, value)
        break
      case KIND.upgrade:
        if (switched) clean.push(name, value)
        break
    }
  }
  return options === undefined ? clean : withoutNamed(kinds, clean, options)
}

function addOptions(options: Set<string> | undefined, value: string): Set<string> | undefined {
  const text = value.toLowerCase()
  if (PLAIN_OPTIONS.has(text)) return options
  const all = options ?? new Set<string>()
  for (const option of text.split(',')) all.add(option.trim())
  return all
}

/** A `Connection` list takes ordinary fields only: not Host, not the framing, not what we write, not an accepted upgrade. */
function withoutNamed(kinds: HeaderKinds, list: string[], options: ReadonlySet<string>): string[] {
  const kept: string[] = []
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] as string
    if (options.has(name.toLowerCase()) && kinds.of(name) === KIND.pass) continue
    kept.push(name, list[i + 1] as string)
  }
  return kept
}

function asksForTrailers(value: string): boolean {
  return value.split(',').some((coding) => coding.trim().toLowerCase() === 'trailers')
}
