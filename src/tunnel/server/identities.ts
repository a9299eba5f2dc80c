import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Labels } from './authority.js'

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const LENGTH = 27

/** What an agent gets back when it comes again: the endpoint that a token of ours names. */
export interface EndpointClaim {
  readonly id: string
  /** host, or host:port of a TCP endpoint. */
  readonly at: string
  /** The name or port was made here. */
  readonly made: boolean
}

/**
 * Names that agents keep over a lost connection, without a memory of them: everything is derived from, or signed with,
 * one secret. With the same secret they survive a restart; a name is never more than a name, rights are asked for anew.
 */
export class Identities {
  readonly #secret: Uint8Array

  /** `secret`: at least 32 random bytes. */
  constructor(secret: Uint8Array) {
    this.#secret = secret
  }

  /** Proves later that the session `clientId` was opened by `credential`. */
  cookie(clientId: string, credential: string): string {
    return this.#mac(['cookie', clientId, credential]).toString('base64url')
  }

  ownsSession(cookie: string, clientId: string, credential: string): boolean {
    return equal(cookie, this.cookie(clientId, credential))
  }

  /** The same for the same offer in the same session; `ordinal` tells equal offers apart. */
  labelledId(clientId: string, labels: Labels, metadata: string, forwardsTo: string, ordinal: number): string {
    const sorted = Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1))
    return `tn_${digits(this.#mac(['labels', clientId, sorted, metadata, forwardsTo, ordinal]))}`
  }

  /** A token with which the same credential gets its endpoint back. */
  endpointToken({ id, at, made }: EndpointClaim, credential: string): string {
    const claim = Buffer.from(JSON.stringify([id, at, made])).toString('base64url')
    return `${claim}.${this.#mac(['endpoint', claim, credential]).toString('base64url')}`
  }

  readEndpointToken(token: string, credential: string): EndpointClaim | undefined {
    const dot = token.indexOf('.')
    const claim = token.slice(0, Math.max(0, dot))
    const expected = this.#mac(['endpoint', claim, credential]).toString('base64url')
    if (dot === -1 || !equal(token.slice(dot + 1), expected)) return undefined
    const [id, at, made] = JSON.parse(Buffer.from(claim, 'base64url').toString()) as [string, string, boolean]
    return { id, at, made }
  }

  #mac(parts: readonly unknown[]): Buffer {
    return createHmac('sha256', this.#secret).update(JSON.stringify(parts)).digest()
  }
}

function equal(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}

function digits(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes.subarray(0, LENGTH)) text += DIGITS[byte % DIGITS.length]
  return text
}
