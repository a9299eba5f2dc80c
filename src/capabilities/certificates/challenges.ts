import { ACME_TLS } from '../../lib/acme-tls.js'
import type { PendingChallenge } from '../../resources/domains.js'

/** Path of http-01 challenges (RFC 8555 8.3). */
const CHALLENGE_PATH = '/.well-known/acme-challenge/'

const NONE: ReadonlyMap<string, readonly string[]> = new Map()

/** Responses to the open challenges of authorities, stored by the record of the requested certificate. */
export class ChallengeTable {
  readonly #pending = new Map<string, readonly PendingChallenge[]>()
  /** Responses by host and path. */
  readonly #answers = new Map<string, Uint8Array>()
  #texts = NONE
  readonly #followers: ((answers: ReadonlyMap<string, Uint8Array>) => void)[] = []

  /** Calls `follower` with the responses by host and path, now and after every change. It must not throw. */
  follow(follower: (answers: ReadonlyMap<string, Uint8Array>) => void): void {
    this.#followers.push(follower)
    follower(this.#answers)
  }

  /** Makes `challenges` exactly those of `owner`. */
  set(owner: string, challenges: readonly PendingChallenge[]): void {
    if (challenges.length === 0 && !this.#pending.has(owner)) return
    if (challenges.length === 0) this.#pending.delete(owner)
    else this.#pending.set(owner, challenges)
    this.#rebuild()
  }

  clear(): void {
    this.#pending.clear()
    this.#rebuild()
  }

  /**
   * Returns the key authorization for a challenge request, undefined for all other requests. For the path `ACME_TLS`, which no request has, it is
   * the certificate and key for a handshake with that protocol. `host`: lower-case, without a port. Ignores all other request data and costs one
   * comparison while no challenge is pending.
   */
  answer(host: string, path: string): Uint8Array | undefined {
    if (this.#answers.size === 0 || !(path.startsWith(CHALLENGE_PATH) || path === ACME_TLS)) return undefined
    return this.#answers.get(`${host} ${path}`)
  }

  /** Values of the TXT records at a name, lower-case. */
  texts(name: string): readonly string[] {
    return this.#texts.get(name) ?? []
  }

  #rebuild(): void {
    this.#answers.clear()
    const texts = new Map<string, string[]>()
    for (const challenge of [...this.#pending.values()].flat()) {
      if (challenge.type === 'http-01') {
        this.#answers.set(`${challenge.host} ${CHALLENGE_PATH}${challenge.token}`, Buffer.from(challenge.value))
      } else if (challenge.type === 'tls-alpn-01') {
        this.#answers.set(`${challenge.host} ${ACME_TLS}`, Buffer.from(challenge.identity))
      } else texts.set(challenge.name, [...(texts.get(challenge.name) ?? []), challenge.value])
    }
    this.#texts = texts
    for (const follower of this.#followers) follower(this.#answers)
  }
}
