import type { Flow } from '../../flow/flow.js'
import type { HeaderFields } from '../../flow/headers.js'
import type { Verdict } from '../../flow/verdict.js'
import type { Scope } from '../action.js'
import type { BodyBuffers } from '../body-buffers.js'
import { codingsOf, decoded } from '../content-coding.js'
import { type BodyText, readText } from './body-text.js'
import { compileReplacement, type Found, type Replacement, replaceWithin } from './replacements.js'

/** Say something of the bytes that were there before (RFC 9530 2; RFC 9110 8.6, 14.3). */
const OF_OLD_BYTES = ['content-md5', 'digest', 'content-digest', 'repr-digest', 'accept-ranges']

/** What answers when the content cannot be read or written. */
export interface ContentRefusals {
  readonly tooLarge: Verdict
  /** A content coding that cannot be undone. */
  readonly coding: Verdict
  /** Bytes that are not what their coding says. */
  readonly malformed: Verdict
}

/** What came of the replacements: nothing to do, or content and header fields for the message. */
type ReplacedContent =
  | { readonly kind: 'unchanged'; readonly found: readonly Found[] }
  | { readonly kind: 'changed'; readonly found: readonly Found[]; readonly bytes: Uint8Array }

/** Replaces in the content of one message whose body has been buffered. */
export type ContentReplacing = (
  flow: Flow,
  body: Uint8Array,
  headers: HeaderFields
) => Promise<ReplacedContent | Verdict>

/**
 * Compiles the replacements of a body. Content codings are undone first, within the limit of a buffered body. When
 * nothing matches, bytes and header fields stay as they came; else the content goes on without a coding, and the fields
 * that spoke of the old bytes are removed.
 */
export function compileContentReplacing(
  list: readonly { readonly from: string; readonly to?: string }[],
  scope: Scope,
  refusals: ContentRefusals
): ContentReplacing {
  const entries = list.map((entry, i) => compileReplacement(entry, ['replacements', i], scope))
  const { bodies } = scope.services
  return async (flow, body, headers) => {
    const content = await contentOf(flow, body, headers, bodies, refusals)
    if (!(content instanceof Uint8Array)) return content
    const reading = readText(content, headers.get('content-type'))
    const outcome = replaceAll(entries, reading, flow, bodies.each)
    if (content !== body) bodies.release(flow, content.length)
    if (outcome === 'too-large') return refusals.tooLarge
    const { text, found } = outcome
    if (text === reading.text) return { kind: 'unchanged', found }
    const bytes = reading.bytes(text)
    if (bytes.length > bodies.each) return refusals.tooLarge
    bodies.release(flow, body.length)
    const full = bodies.reserve(flow, bytes.length)
    if (full !== undefined) return full
    describe(headers, bytes, reading)
    return { kind: 'changed', found, bytes }
  }
}

/** The content without its codings, counted in the budget when it is not `body` itself. */
async function contentOf(
  flow: Flow,
  body: Uint8Array,
  headers: HeaderFields,
  bodies: BodyBuffers,
  refusals: ContentRefusals
): Promise<Uint8Array | Verdict> {
  const codings = codingsOf(headers)
  if (codings.length === 0) return body
  // How much comes out is known afterwards.
  const full = bodies.reserve(flow, bodies.each)
  if (full !== undefined) return full
  const content = await decoded(body, codings, bodies.each)
  bodies.release(flow, bodies.each - (content instanceof Uint8Array ? content.length : 0))
  if (content instanceof Uint8Array) return content
  return content === 'too-large' ? refusals.tooLarge : content === 'unknown' ? refusals.coding : refusals.malformed
}

function replaceAll(
  entries: readonly Replacement[],
  reading: BodyText,
  flow: Flow,
  limit: number
): { readonly text: string; readonly found: readonly Found[] } | 'too-large' {
  let { text } = reading
  const found: Found[] = []
  for (const [index, { from, to }] of entries.entries()) {
    const regex = from(flow)
    const match = regex.exec(text)
    if (match === undefined) continue
    found.push({ replacement_index: index, matched_content: match.groups[0] ?? '' })
    const replaced = replaceWithin(regex, text, reading.insertion(to(flow)), limit)
    if (replaced === undefined) return 'too-large'
    text = replaced
  }
  return { text, found }
}

function describe(headers: HeaderFields, bytes: Uint8Array, { contentType }: BodyText): void {
  headers.delete('content-encoding')
  for (const name of OF_OLD_BYTES) headers.delete(name)
  // The engine frames by the bytes; this is for policies that look.
  if (headers.has('content-length')) headers.set('content-length', String(bytes.length))
  if (contentType !== undefined) headers.set('content-type', contentType)
  const tag = headers.get('etag')
  if (tag?.startsWith('"')) headers.set('etag', `W/${tag}`)
}
