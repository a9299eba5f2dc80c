import type { Template } from '../../expression/expression.js'
import type { Flow } from '../../flow/flow.js'
import type { Verdict } from '../../flow/verdict.js'
import type { BodyBuffers } from '../body-buffers.js'
import type { JwtProblem } from './problems.js'
import { readJsonObject } from './strict-json.js'

/** The text of a token, or why there is none. */
export type Found = { readonly text: string } | { readonly problem: JwtProblem }

/** What a place is called, and what stands before the token there. */
export interface Place {
  readonly name: Template
  readonly prefix: Template | undefined
}

/** Values of a body by their names in lower case, or why it has none. */
export type Members = ReadonlyMap<string, readonly unknown[]> | JwtProblem

/** Where a flow keeps the members of its body, with the bytes that they were read from. */
const SLOT = 'jwt-body'
const BODY_METHODS = new Set(['POST', 'PUT', 'PATCH'])
const MEDIA_TYPE = /^(application\/json|application\/x-www-form-urlencoded)[ \t]*(?:;|$)/i
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The token in a header. A header that came twice is refused: the upstream might look at the other one. */
export function tokenInHeader({ name, prefix }: Place, flow: Flow): Found {
  const values = flow.request?.headers.values(name.text(flow)) ?? []
  if (values.length > 1) return { problem: 'JWT_REPEATED' }
  return stripped(values[0], prefix, flow)
}

/** The members of a body, read once for all tokens in it, or the verdict that ends the exchange. */
export async function membersOfBody(flow: Flow, bodies: BodyBuffers): Promise<Members | Verdict> {
  const { request } = flow
  if (request === undefined || !BODY_METHODS.has(request.method)) return 'JWT_BODY_METHOD'
  const types = request.headers.values('content-type')
  const type = MEDIA_TYPE.exec(types.length === 1 ? (types[0] as string) : '')?.[1]
  const coding = request.headers.get('content-encoding')
  if (type === undefined || (coding !== undefined && coding.toLowerCase() !== 'identity')) return 'JWT_BODY_TYPE'
  const bytes = await bodies.request(flow)
  if (!(bytes instanceof Uint8Array)) return bytes
  const known = flow.derived[SLOT] as { readonly bytes: Uint8Array; readonly members: Members } | undefined
  if (known?.bytes === bytes) return known.members
  const members = type.toLowerCase() === 'application/json' ? readJson(bytes) : readForm(bytes)
  flow.derived[SLOT] = { bytes, members }
  return members
}

/** The token in a body. Names have no case, and one that came twice, in whatever case, is refused. */
export function tokenInBody({ name, prefix }: Place, members: Members, flow: Flow): Found {
  if (typeof members === 'string') return { problem: members }
  const values = members.get(name.text(flow).toLowerCase()) ?? []
  if (values.length > 1) return { problem: 'JWT_REPEATED' }
  const [value] = values
  return value === undefined || typeof value === 'string' ? stripped(value, prefix, flow) : { problem: 'JWT_MALFORMED' }
}

function stripped(value: string | undefined, prefix: Template | undefined, flow: Flow): Found {
  if (value === undefined || value === '') return { problem: 'JWT_MISSING' }
  if (prefix === undefined) return { text: value }
  const before = prefix.text(flow)
  // RFC 9110 11.1: the scheme of an Authorization has no case.
  if (value.slice(0, before.length).toLowerCase() !== before.toLowerCase()) return { problem: 'JWT_PREFIX' }
  const text = value.slice(before.length).trim()
  return text === '' ? { problem: 'JWT_MISSING' } : { text }
}

function byLowerCase(entries: Iterable<readonly [string, unknown]>): ReadonlyMap<string, readonly unknown[]> {
  const members = new Map<string, unknown[]>()
  for (const [name, value] of entries) {
    const known = members.get(name.toLowerCase())
    if (known === undefined) members.set(name.toLowerCase(), [value])
    else known.push(value)
  }
  return members
}

function readJson(bytes: Uint8Array): Members {
  const object = readJsonObject(bytes)
  return object === undefined ? 'JWT_BODY_JSON' : byLowerCase(Object.entries(object))
}

function readForm(bytes: Uint8Array): Members {
  let text: string
  try {
    text = UTF8.decode(bytes)
  } catch {
    // The decoder has one reason to throw.
    return 'JWT_BODY_FORM'
  }
  return byLowerCase(new URLSearchParams(text))
}
