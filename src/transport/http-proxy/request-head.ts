import type { Framing } from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'

/** What the front must know of a head before it makes an exchange. */
export interface HeadFacts {
  /** A status when the head is refused: 400 or 417. */
  refused: number | undefined
  authority: string
  framing: Framing
  expectsContinue: boolean
  upgrade: 'websocket' | 'other' | undefined
}

const NONE: Framing = { kind: 'none' }
const OPEN: Framing = { kind: 'open' }
const DIGITS = /^\d{1,15}$/

/**
 * Framing, Host and expectation of a request head (RFC 9112 3.2, 6.3; RFC 9110 10.1.1).
 *
 * Refused with 400: more than one Content-Length even when equal, Content-Length beside Transfer-Encoding, any
 * Transfer-Encoding but `chunked` or on HTTP/1.0, and not exactly one Host on HTTP/1.1.
 */
export function readHead(method: string, minor: number, headers: HeaderList): HeadFacts {
  const facts: HeadFacts = {
    refused: undefined,
    authority: '',
    framing: NONE,
    expectsContinue: false,
    upgrade: undefined
  }
  let hosts = 0
  let lengths = 0
  let encodings = 0
  let upgrade = ''
  let connectionUpgrade = false
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string
    const value = headers[i + 1] as string
    switch (name.length) {
      case 4:
        if (name.toLowerCase() === 'host' && ++hosts === 1) facts.authority = value
        break
      case 6:
        if (name.toLowerCase() === 'expect' && minor === 1) {
          if (value.toLowerCase() === '100-continue') facts.expectsContinue = true
          else facts.refused = 417
        }
        break
      case 7:
        if (name.toLowerCase() === 'upgrade') upgrade = upgrade === '' ? value.toLowerCase() : 'several'
        break
      case 10:
        if (name.toLowerCase() === 'connection' && hasToken(value, 'upgrade')) connectionUpgrade = true
        break
      case 14:
        if (name.toLowerCase() === 'content-length') {
          lengths++
          facts.framing = DIGITS.test(value) ? { kind: 'length', bytes: Number(value) } : OPEN
          if (facts.framing === OPEN) facts.refused = 400
        }
        break
      case 17:
        if (name.toLowerCase() === 'transfer-encoding') {
          encodings++
          facts.framing = OPEN
          if (value.toLowerCase() !== 'chunked' || minor === 0) facts.refused = 400
        }
        break
    }
  }
  if (hosts > 1 || (hosts === 0 && minor === 1) || lengths + encodings > 1) facts.refused = 400
  if (connectionUpgrade && upgrade !== '' && minor === 1 && method === 'GET' && facts.framing.kind === 'none') {
    facts.upgrade = upgrade === 'websocket' ? 'websocket' : 'other'
  }
  return facts
}

function hasToken(list: string, token: string): boolean {
  if (list.length === token.length) return list.toLowerCase() === token
  if (!list.includes(',')) return list.trim().toLowerCase() === token
  return list.split(',').some((part) => part.trim().toLowerCase() === token)
}
