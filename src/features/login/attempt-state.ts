import { createHash, createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'
import { openText, sealText } from '../../lib/sealed-text.js'
import type { AuthorizationRequest } from './openid.js'

/** Time limit for the login at the provider (ms). */
export const ATTEMPT_LASTS = 600_000

/** Tolerated clock difference between processes of a cluster (ms). */
export const CLOCK_DIFFERENCE = 60_000

/** Login in progress, in a cookie of the browser that started it: no other browser can finish it. */
export interface Attempt extends AuthorizationRequest {
  /** Name of its cookie. */
  readonly id: string
  /** Path to return to, checked by `returnPath`. */
  readonly path: string
  /** Wall clock, milliseconds. */
  readonly begun: number
}

/** Maximum path length in a state, because providers and servers limit URLs. Longer paths are only in the cookie. */
const LONGEST_PATH = 1_024

interface NewAttempt extends Pick<Attempt, 'redirectUri' | 'path' | 'begun'> {
  readonly round: number
  /** False for a state of at most 80 characters (SAML Bindings 3.4.3), without the path. */
  readonly carries?: boolean
}

/**
 * Creates an attempt with unguessable values of 192 and 256 bits. Its state has the form for `readState` and contains the sealed path, so
 * that a callback without its cookie can return there. Ids sort by time.
 */
export function newAttempt(
  vault: Pick<Vault, 'tag' | 'seal'>,
  mark: string,
  { round, redirectUri, path, begun, carries = true }: NewAttempt
): Attempt {
  const id = `${Math.trunc(begun / 1_000)
    .toString(16)
    .padStart(8, '0')
    .slice(-8)}${randomBytes(2).toString('hex')}`
  const carried = !carries || path.length > LONGEST_PATH ? '' : `.${vault.seal(path, 'path')}`
  return {
    id,
    state: `${vault.tag}.${mark}.${round}.${id}.${randomBytes(24).toString('base64url')}${carried}`,
    nonce: randomBytes(24).toString('base64url'),
    verifier: randomBytes(32).toString('base64url'),
    redirectUri,
    path,
    begun
  }
}

/** Returns the path in a state; undefined for none. */
export function pathInState(vault: Vault, state: string): string | undefined {
  return vault.open(state.split('.')[5] ?? '', 'path')
}

export function sealAttempt(vault: Vault, { id, state, nonce, verifier, redirectUri, path, begun }: Attempt): string {
  const rest = pathInState(vault, state) === undefined ? [path] : []
  return vault.seal(JSON.stringify([id, digestOf(state), nonce, verifier, redirectUri, begun, ...rest]), 'attempt')
}

/** Returns the attempt in a cookie if it belongs to `state` and is recent. */
export function openAttempt(vault: Vault, sealed: string, state: string, now: number): Attempt | undefined {
  const text = vault.open(sealed, 'attempt')
  if (text === undefined) return undefined
  const [id, digest, nonce, verifier, redirectUri, begun, path = pathInState(vault, state) ?? '/'] = JSON.parse(
    text
  ) as readonly [string, string, string, string, string, number, string?]
  // The browser sends both, so the state is no secret from it; a plain comparison reveals nothing.
  const isNow = now - begun < ATTEMPT_LASTS && begun <= now + CLOCK_DIFFERENCE
  if (digest !== digestOf(state) || !isNow) return undefined
  return { id, state, nonce, verifier, redirectUri, path, begun }
}

function digestOf(state: string): string {
  return createHash('sha256').update(state).digest('base64url')
}

const KEY_BYTES = 32
const MARK_BYTES = 16

/** Purpose of a sealed value; it opens only for the same purpose. */
type Purpose = 'session' | 'attempt' | 'path' | 'kept'

/** Returns the name of a realm in cookies, states and links; reveals nothing about keys. */
export function tagOf(realm: string): string {
  return `sl${createHash('sha256').update(realm).digest('hex').slice(0, 12)}`
}

/** Seals browser data of one realm. Each realm has its own keys, derived by HKDF (RFC 5869), so that its values open in no other. */
export class Vault {
  /** Tag of its realm; see `tagOf`. */
  readonly tag: string
  readonly #keys: readonly Buffer[]

  /** `keys`: 32 bytes each; the first one seals, all of them open. All processes of a cluster have the same. */
  constructor(keys: readonly Uint8Array[], realm: string) {
    if (keys.length === 0) throw new RangeError('a vault needs a key')
    this.tag = tagOf(realm)
    this.#keys = keys.map((key) => Buffer.from(hkdfSync('sha256', key, '', `sluice login ${realm}`, KEY_BYTES)))
  }

  seal(plain: string, purpose: Purpose): string {
    return sealText(this.#keys[0] as Buffer, plain, purpose)
  }

  /** Opens a value; undefined if it was modified, truncated, made for another purpose, or sealed by an unknown key. */
  open(sealed: string, purpose: Purpose): string | undefined {
    return openText(this.#keys, sealed, purpose)
  }

  /** Returns a mark that only this realm can create; 22 characters of base64url. */
  mark(text: string): string {
    return markOf(this.#keys[0] as Buffer, text).toString('base64url')
  }

  isMarked(text: string, mark: string): boolean {
    const given = Buffer.from(mark, 'base64url')
    return given.length === MARK_BYTES && this.#keys.some((key) => timingSafeEqual(markOf(key, text), given))
  }
}

function markOf(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update('mark ').update(text).digest().subarray(0, MARK_BYTES)
}
