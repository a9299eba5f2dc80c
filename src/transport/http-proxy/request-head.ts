import type { Socket } from 'node:net'
import type { Framing } from '../../flow/exchange.js'
import type { HeaderList } from '../../flow/headers.js'
import { MALFORMED, type MalformedMessage, type StartLine, TOKEN } from '../message-scanner.js'

/** Properties of a head that the server transport needs before it creates an exchange. */
export interface HeadFacts {
  /** Status of a rejected head: 400 or 417. */
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
 * Reads framing, Host and expectation of a request head (RFC 9112 3.2, 6.3; RFC 9110 10.1.1). Rejects with 400: more than one
 * Content-Length even if equal, Content-Length beside Transfer-Encoding, any Transfer-Encoding but `chunked` or on HTTP/1.0, and not
 * exactly one Host on HTTP/1.1.
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
  if (connectionUpgrade && upgrade !== '' && minor === 1) {
    if (!hasToken(upgrade, 'websocket')) facts.upgrade = 'other'
    else if (method === 'GET') {
      // Some clients send a length of 0 for no content.
      if (facts.framing.kind === 'length' && facts.framing.bytes === 0) facts.framing = NONE
      if (facts.framing.kind === 'none') facts.upgrade = 'websocket'
    }
  }
  return facts
}

function hasToken(list: string, token: string): boolean {
  if (list.length === token.length) return list.toLowerCase() === token
  if (!list.includes(',')) return list.trim().toLowerCase() === token
  return list.split(',').some((part) => part.trim().toLowerCase() === token)
}

const VERSION = Buffer.from('HTTP/1.')
const MAX_METHOD = 32
const [CR, LF, SP] = [0x0d, 0x0a, 0x20]
const TARGET_TOO_LONG: MalformedMessage = { status: 414, why: 'too-large' }
const UNKNOWN_VERSION: MalformedMessage = { status: 505, why: 'client-malformed' }

const Step = { start: 0, startLf: 1, method: 2, target: 3, version: 4, cr: 5, lf: 6 } as const

/** `method SP target SP HTTP/1.x` (RFC 9112 3); accepts one empty line before it (2.2). */
export class RequestLine implements StartLine {
  readonly #targetBytes: number
  #step: number = Step.start
  /** Bytes of the current element. */
  #length = 0
  #emptyLines = 0

  constructor(targetBytes: number) {
    this.#targetBytes = targetBytes
  }

  get fresh(): boolean {
    return this.#step === Step.start
  }

  reset(): void {
    this.#step = Step.start
    this.#length = this.#emptyLines = 0
  }

  take(byte: number): 'more' | 'ended' | MalformedMessage {
    switch (this.#step) {
      case Step.start:
        if (byte === CR && this.#emptyLines++ === 0) return this.#go(Step.startLf, 0)
        return TOKEN[byte] === 1 ? this.#go(Step.method, 1) : MALFORMED
      case Step.startLf:
        return byte === LF ? this.#go(Step.start, 0) : MALFORMED
      case Step.method:
        if (byte === SP) return this.#go(Step.target, 0)
        return TOKEN[byte] !== 1 || ++this.#length > MAX_METHOD ? MALFORMED : 'more'
      case Step.target:
        if (byte === SP && this.#length > 0) return this.#go(Step.version, 0)
        if (byte <= SP || byte >= 0x7f) return MALFORMED
        return ++this.#length > this.#targetBytes ? TARGET_TOO_LONG : 'more'
      case Step.version:
        return this.#version(byte)
      case Step.cr:
        return byte === CR ? this.#go(Step.lf, 0) : MALFORMED
      default:
        return byte === LF ? 'ended' : MALFORMED
    }
  }

  #version(byte: number): 'more' | MalformedMessage {
    const i = this.#length++
    const digit = byte >= 0x30 && byte <= 0x39
    if (i < VERSION.length) {
      if (byte === VERSION[i]) return 'more'
      return i === 5 && digit ? UNKNOWN_VERSION : MALFORMED
    }
    if (byte === 0x30 || byte === 0x31) return this.#go(Step.cr, 0)
    return digit ? UNKNOWN_VERSION : MALFORMED
  }

  #go(step: number, length: number): 'more' {
    this.#step = step
    this.#length = length
    return 'more'
  }
}

/**
 * Takes over the socket's bytes from node:http: returns its listener as a function for bytes that the scanner has passed. Also removes its
 * reaction to a FIN, which would end a half-closed pipe.
 */
export function parserOf(socket: Socket): (chunk: Buffer) => void {
  const feed = socket.listeners('data')[0] as (chunk: Buffer) => void
  socket.removeListener('data', feed)
  socket.removeAllListeners('end')
  return feed
}
