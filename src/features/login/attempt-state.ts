import { createHash, createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'
import { openText, sealText } from '../../lib/sealed-text.js'
import type { AuthorizationRequest } from './openid.js'

/** Milliseconds that a user has to log in at the provider. */
export const ATTEMPT_LASTS = 600_000

/** Clocks of the processes of one cluster may differ by that much, in milliseconds. */
export const CLOCK_DIFFERENCE = 60_000

/** A login under way, in a cookie of the browser that began it: no other browser can end it. */
export interface Attempt extends AuthorizationRequest {
  /** Names its cookie. */
  readonly id: string
  /** Where the browser wanted to go: a path that `returnPath` has let pass. */
  readonly path: string
  /** Wall clock, milliseconds. */
  readonly begun: number
}

/** Longest path that a state carries: providers and servers bound their URLs. The cookie has longer ones. */
const LONGEST_PATH = 1_024

/**
 * A new attempt with unguessable values of 192 and 256 bits. Its state has the form that `readState` reads, and carries the path,
 * sealed, so that a callback without its cookie still leads there. Ids sort by time.
 */
export function newAttempt(
  vault: Pick<Vault, 'tag' | 'seal'>,
  mark: string,
  { round, redirectUri, path, begun }: Pick<Attempt, 'redirectUri' | 'path' | 'begun'> & { readonly round: number }
): Attempt {
  const id = `${Math.trunc(begun / 1_000)
    .toString(16)
    .padStart(8, '0')
    .slice(-8)}${randomBytes(2).toString('hex')}`
  const carried = path.length > LONGEST_PATH ? '' : `.${vault.seal(path, 'path')}`
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

/** The path that a state of ours carries; undefined: it carries none. */
export function pathInState(vault: Vault, state: string): string | undefined {
  return vault.open(state.split('.')[5] ?? '', 'path')
}

export function sealAttempt(vault: Vault, { id, state, nonce, verifier, redirectUri, path, begun }: Attempt): string {
  const rest = pathInState(vault, state) === undefined ? [path] : []
  return vault.seal(JSON.stringify([id, digestOf(state), nonce, verifier, redirectUri, begun, ...rest]), 'attempt')
}

/** The attempt that a cookie holds, when it is the one of `state` and not too old. */
export function openAttempt(vault: Vault, sealed: string, state: string, now: number): Attempt | undefined {
  const text = vault.open(sealed, 'attempt')
  if (text === undefined) return undefined
  const [id, digest, nonce, verifier, redirectUri, begun, path = pathInState(vault, state) ?? '/'] = JSON.parse(
    text
  ) as readonly [string, string, string, string, string, number, string?]
  // The state is no secret of the browser that sends both; a plain comparison tells it nothing.
  const isNow = now - begun < ATTEMPT_LASTS && begun <= now + CLOCK_DIFFERENCE
  if (digest !== digestOf(state) || !isNow) return undefined
  return { id, state, nonce, verifier, redirectUri, path, begun }
}

function digestOf(state: string): string {
  return createHash('sha256').update(state).digest('base64url')
}

const KEY_BYTES = 32
const MARK_BYTES = 16

/** What a sealed value is for; it opens for the same purpose only. */
type Purpose = 'session' | 'attempt' | 'path' | 'kept'

/** Names a realm in cookies, states and links; says nothing about keys. */
export function tagOf(realm: string): string {
  return `sl${createHash('sha256').update(realm).digest('hex').slice(0, 12)}`
}

/**
 * Seals what browsers keep for one realm. Each realm has keys of its own, derived by HKDF (RFC 5869), so that a value of one realm opens in no other.
 */
export class Vault {
  /** Of its realm; see `tagOf`. */
  readonly tag: string
  readonly #keys: readonly Buffer[]

  /** `keys`: 32 bytes each; the first one seals, all of them open. Every process of a cluster has the same. */
  constructor(keys: readonly Uint8Array[], realm: string) {
    if (keys.length === 0) throw new RangeError('a vault needs a key')
    this.tag = tagOf(realm)
    this.#keys = keys.map((key) => Buffer.from(hkdfSync('sha256', key, '', `sluice login ${realm}`, KEY_BYTES)))
  }

  seal(plain: string, purpose: Purpose): string {
    return sealText(this.#keys[0] as Buffer, plain, purpose)
  }

  /** Undefined when the value was changed, cut, made for something else, or sealed by a key that is not here. */
  open(sealed: string, purpose: Purpose): string | undefined {
    return openText(this.#keys, sealed, purpose)
  }

  /** A mark that only this realm can make; 22 characters of base64url. */
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
