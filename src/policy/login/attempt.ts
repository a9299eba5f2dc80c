import { randomBytes } from 'node:crypto'
import type { AuthorizationRequest } from './openid.js'
import type { Vault } from './vault.js'

/** Milliseconds that a user has to log in at the provider. */
export const ATTEMPT_LASTS = 600_000

/** Clocks of the processes of one cluster may differ by that much, in milliseconds. */
export const CLOCK_DIFFERENCE = 60_000

/** A login under way, in a cookie of the browser that began it: nobody else can end it. */
export interface Attempt extends AuthorizationRequest {
  /** Names its cookie. */
  readonly id: string
  /** Where the browser wanted to go: a path that `returnPath` has let pass. */
  readonly path: string
  /** Wall clock, milliseconds. */
  readonly begun: number
}

/** What a state says without being trusted: realm and gate, which cookie, and how often the login was begun anew. */
export interface StateFacts {
  readonly tag: string
  /** Of the gate; see `markOf`. */
  readonly mark: string
  readonly id: string
  readonly round: number
}

const STATE = /^(sl[0-9a-f]{12})\.([0-9a-f]{8})\.([0-9])\.([0-9a-f]{12})\.[A-Za-z0-9_-]{32}$/

/** A new attempt with unguessable values of 192 and 256 bits. */
export function newAttempt(
  { tag, mark }: { readonly tag: string; readonly mark: string },
  round: number,
  redirectUri: string,
  path: string,
  begun: number
): Attempt {
  const id = randomBytes(6).toString('hex')
  return {
    id,
    state: `${tag}.${mark}.${round}.${id}.${randomBytes(24).toString('base64url')}`,
    nonce: randomBytes(24).toString('base64url'),
    verifier: randomBytes(32).toString('base64url'),
    redirectUri,
    path,
    begun
  }
}

/** Undefined when no realm of ours can have made this state. */
export function readState(state: string): StateFacts | undefined {
  const [, tag, mark, round, id] = STATE.exec(state) ?? []
  if (tag === undefined || mark === undefined || id === undefined) return undefined
  return { tag, mark, round: Number(round), id }
}

export function sealAttempt(vault: Vault, { id, state, nonce, verifier, redirectUri, path, begun }: Attempt): string {
  return vault.seal(JSON.stringify([id, state, nonce, verifier, redirectUri, path, begun]), 'attempt')
}

/** The attempt that a cookie holds, when it is the one of `state` and not too old. */
export function openAttempt(vault: Vault, sealed: string, state: string, now: number): Attempt | undefined {
  const text = vault.open(sealed, 'attempt')
  if (text === undefined) return undefined
  const [id, known, nonce, verifier, redirectUri, path, begun] = JSON.parse(text) as readonly [
    string,
    string,
    string,
    string,
    string,
    string,
    number
  ]
  // The state is no secret of the browser that sends both; a plain comparison tells it nothing.
  const isNow = now - begun < ATTEMPT_LASTS && begun <= now + CLOCK_DIFFERENCE
  if (known !== state || !isNow) return undefined
  return { id, state, nonce, verifier, redirectUri, path, begun }
}
