import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Flow } from '../../flow/flow.js'
import type { KeySet, VerificationKey } from './jwks.js'
import type { KeySource } from './key-sources.js'
import { signatureIsRight } from './signature.js'
import { type JwtProblem, readToken, type Token } from './token.js'

/** Parsed part of a token; without a problem its signature is valid. */
export interface Verified {
  readonly token: Token | undefined
  readonly problem: JwtProblem | undefined
}

interface Remembered {
  readonly verified: Verified
  readonly key: VerificationKey
}

/** Approximate memory of cached tokens (bytes). */
const MEMORY = 8 * 1024 * 1024
/** Maximum number of signature checks for a token without a key name. */
const MAX_TRIALS = 16

/**
 * Cache of tokens with valid signatures by digest, with the key.
 *
 * Validity of a signature depends on the bytes of token and key alone and never changes. Whether the key is accepted and the claims hold is
 * checked each time. Invalid signatures are not cached, so a client without a key cannot fill the memory.
 */
export class SignatureMemory {
  readonly #tokens = new LRUCache<string, Remembered>({
    maxSize: MEMORY,
    // Text, header and claims as objects, and the entry itself.
    sizeCalculation: ({ verified }) => 512 + 4 * (verified.token?.text.length ?? 0)
  })
  readonly #pending = new Map<string, Promise<boolean>>()

  get(digest: string): Remembered | undefined {
    return this.#tokens.get(digest)
  }

  /** Verifies the signature with this key. Concurrent callers share the check. */
  check(digest: string, verified: Verified, token: Token, key: VerificationKey): Promise<boolean> {
    const name = `${digest} ${key.id}`
    let pending = this.#pending.get(name)
    if (pending === undefined) {
      pending = signatureIsRight(token, key).finally(() => this.#pending.delete(name))
      this.#pending.set(name, pending)
    }
    return pending.then((right) => {
      if (right) this.#tokens.set(digest, { verified, key })
      return right
    })
  }
}

export interface VerifierParts {
  readonly sources: readonly KeySource[]
  readonly algorithms: ReadonlySet<string>
  /** Requires tokens to name their key. */
  readonly kidNeeded: boolean
  /** Maximum length of a token (characters). */
  readonly longest: number
  readonly memory: SignatureMemory
}

/** Verifies token signatures. Synchronous for a cached token with an available key. */
export class TokenVerifier {
  readonly #parts: VerifierParts

  constructor(parts: VerifierParts) {
    this.#parts = parts
  }

  verify(text: string, flow: Flow): Verified | Promise<Verified> {
    const { memory, sources, longest } = this.#parts
    // Checked first: a body may contain a megabyte.
    if (text.length > longest) return { token: undefined, problem: 'JWT_MALFORMED' }
    const digest = hash('sha256', text, 'base64')
    const known = memory.get(digest)
    const token = known?.verified.token ?? readToken(text)
    if (typeof token === 'string') return { token: undefined, problem: token }
    const refused = this.#refusal(token)
    if (refused !== undefined) return { token, problem: refused }
    if (known !== undefined && sources.some((source) => source.current(flow)?.byId.has(known.key.id))) {
      return known.verified
    }
    return this.#search(digest, token, flow)
  }

  /** Returns problems that need no key. */
  #refusal({ algorithm, kid }: Token): JwtProblem | undefined {
    const { algorithms, kidNeeded } = this.#parts
    if (!algorithms.has(algorithm)) return 'JWT_ALGORITHM'
    return kid === undefined && kidNeeded ? 'JWT_KEY_UNKNOWN' : undefined
  }

  /** Tries available keys first, then those that must be loaded, then those after a reload. */
  async #search(digest: string, token: Token, flow: Flow): Promise<Verified> {
    const { sources } = this.#parts
    const verified = { token, problem: undefined }
    const trial = new Trial(token, (key) => this.#parts.memory.check(digest, verified, token, key))
    if (await trial.any(sources.map((source) => source.current(flow)))) return verified
    if (await trial.any(await Promise.all(sources.map((source) => source.ready(flow))))) return verified
    // Some issuers reuse the name of an old key for a new one.
    if (await trial.any(await Promise.all(sources.map((source) => source.renewed(flow))))) return verified
    const named = token.kid !== undefined && trial.keys > 0
    const incomplete = sources.some(
      (source) => source.current(flow) === undefined || (trial.keys === 0 && source.failing(flow))
    )
    // The key may be among those that could not be loaded.
    if (!named && incomplete) return { token, problem: 'JWT_KEYS_UNAVAILABLE' }
    return { token, problem: trial.keys > 0 ? 'JWT_SIGNATURE' : 'JWT_KEY_UNKNOWN' }
  }
}

/** Keys tried for a token, each at most once. */
class Trial {
  readonly #token: Token
  readonly #check: (key: VerificationKey) => Promise<boolean>
  readonly #tried = new Set<string>()

  constructor(token: Token, check: (key: VerificationKey) => Promise<boolean>) {
    this.#token = token
    this.#check = check
  }

  get keys(): number {
    return this.#tried.size
  }

  /** Returns true if a matching key verifies the signature. */
  async any(sets: readonly (KeySet | undefined)[]): Promise<boolean> {
    for (const set of sets) {
      for (const key of set?.keys ?? []) {
        if (!this.#fits(key) || this.#tried.has(key.id) || this.#tried.size >= MAX_TRIALS) continue
        this.#tried.add(key.id)
        if (await this.#check(key)) return true
      }
    }
    return false
  }

  /** Compares key names, their only use. A key without a name matches any. */
  #fits({ kid, algorithms }: VerificationKey): boolean {
    const { algorithm, kid: wanted } = this.#token
    return algorithms.has(algorithm) && (kid === undefined || wanted === undefined || kid === wanted)
  }
}
