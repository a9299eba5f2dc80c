import type { Framing } from '../../flow/exchange.js'
import { type HeadReader, MALFORMED, type Refusal } from './head-reader.js'

const EXPECTATION: Refusal = { status: 417, why: 'client-malformed' }
const NONE: Framing = { kind: 'none' }
const OPEN: Framing = { kind: 'open' }

/**
 * Why a request head that keeps the grammar is refused all the same (RFC 9112 3.2, 6.3; RFC 9110 10.1.1), or undefined.
 *
 * 400: more than one Content-Length even when equal, Content-Length beside Transfer-Encoding, any Transfer-Encoding
 * but `chunked` or on HTTP/1.0, not exactly one Host on HTTP/1.1. 417: an expectation other than 100-continue.
 */
export function refusalOf(head: HeadReader): Refusal | undefined {
  if (head.hosts !== 1 && (head.hosts > 1 || head.minor === 1)) return MALFORMED
  if (head.lengths + head.encodings > 1 || head.badFraming) return MALFORMED
  if (head.encodings > 0 && head.minor === 0) return MALFORMED
  if (head.expectation !== '' && head.minor === 1 && head.expectation !== '100-continue') return EXPECTATION
  return undefined
}

/** How the body of a request that is not refused ends. A CONNECT has none. */
export function requestFraming(head: HeadReader): Framing {
  if (head.lengths + head.encodings === 0 || head.method === 'CONNECT') return NONE
  return head.encodings > 0 ? OPEN : { kind: 'length', bytes: head.length }
}

/** What the head asks to turn into a byte pipe. */
export function upgradeOf(head: HeadReader, framing: Framing): 'websocket' | 'other' | undefined {
  if (head.upgrade === '' || !head.connectionUpgrade) return undefined
  if (head.minor !== 1 || head.method !== 'GET' || framing.kind !== 'none') return undefined
  return head.upgrade === 'websocket' ? 'websocket' : 'other'
}

/** May another request follow on the connection? */
export function keepsAlive(head: HeadReader): boolean {
  return head.minor === 1 && !head.close && head.method !== 'CONNECT'
}
