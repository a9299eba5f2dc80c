import type { Flow, FlowRequest, FlowResponse } from '../../flow/flow.js'
import { HeaderFields, type HeaderList } from '../../flow/headers.js'
import { EvaluationError } from '../expression.js'

const NO_REQUEST = new EvaluationError('failed', 'there is no request')
const NO_RESPONSE = new EvaluationError('failed', 'there is no response')

export function requestOf(flow: Flow): FlowRequest {
  if (flow.request === undefined) throw NO_REQUEST
  return flow.request
}

export function responseOf(flow: Flow): FlowResponse {
  if (flow.response === undefined) throw NO_RESPONSE
  return flow.response
}

/** Header fields as a map that is looked up without regard to case. Its keys are lower-case. */
export class HeaderMap extends Map<unknown, readonly string[]> {
  override get(name: unknown): readonly string[] | undefined {
    return super.get(typeof name === 'string' ? name.toLowerCase() : name)
  }

  override has(name: unknown): boolean {
    return super.has(typeof name === 'string' ? name.toLowerCase() : name)
  }
}

/** What was derived from a source, and from which, so that a changed source is noticed. */
interface Derived {
  readonly source: unknown
  readonly value: unknown
}

/** `make(source)`, worked out once per flow and slot for as long as the source is the same object or text. */
export function derive<S, T>(flow: Flow, slot: string, source: S, make: (source: S) => T): T {
  const known = flow.derived[slot] as Derived | undefined
  if (known !== undefined && known.source === source) return known.value as T
  const value = make(source)
  flow.derived[slot] = { source, value } satisfies Derived
  return value
}

/** The fields of a message as a map. */
export function headerMap(flow: Flow, slot: string, headers: HeaderFields): HeaderMap {
  return derive(flow, slot, headers.byName, (byName) => new HeaderMap(byName))
}

/** Trailers as a map; empty before they have come. */
export function trailerMap(trailers: HeaderList | undefined): HeaderMap {
  return trailers === undefined ? new HeaderMap() : new HeaderMap(new HeaderFields(trailers).byName)
}

/** The elements of a comma-separated header (RFC 9110 5.6.1), without empty ones. */
export function listHeader(headers: HeaderFields, name: string): string[] {
  return headers
    .values(name)
    .flatMap((value) => value.split(','))
    .map((element) => element.trim())
    .filter((element) => element !== '')
}

/** A Content-Type header in parts (RFC 9110 8.3). */
export interface ContentType {
  readonly raw: string
  /** Lower-case, without parameters. */
  readonly mediaType: string
  readonly parameters: ReadonlyMap<string, string>
}

const PARAMETER = /;\s*([^\s=;"]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))/g

export function contentType(raw: string): ContentType {
  const semicolon = raw.indexOf(';')
  const parameters = new Map<string, string>()
  if (semicolon !== -1) {
    for (const [, name, quoted, plain] of raw.slice(semicolon).matchAll(PARAMETER)) {
      const key = (name as string).toLowerCase()
      if (!parameters.has(key)) parameters.set(key, quoted?.replace(/\\(.)/g, '$1') ?? plain ?? '')
    }
  }
  return { raw, mediaType: (semicolon === -1 ? raw : raw.slice(0, semicolon)).trim().toLowerCase(), parameters }
}
