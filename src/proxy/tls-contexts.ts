import { randomBytes, X509Certificate } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../lib/clock.js'
import type { TlsEntry } from '../transport/contract.js'
import { type ServerContextOptions, serverContext } from '../transport/tls/server-context.js'

/** A certificate with its key, as PEM. Contexts are kept for the object: another one means another certificate. */
export interface ServerIdentity {
  /** Leaf first. */
  readonly chain: string
  readonly privateKey: string
}

/** What is asked of a handshake. */
export interface TlsDemand extends Pick<ServerContextOptions, 'minVersion' | 'maxVersion' | 'clientCertificates'> {
  /** PEM of the authorities that may vouch for clients. */
  readonly authorities?: readonly string[]
}

/** What a handshake is made with. */
export type ServerContext = Required<Pick<TlsEntry, 'context' | 'certificate'>>

export interface TlsContextsParts {
  readonly clock: Clock
  /** Most contexts that are kept. */
  readonly most?: number
}

const MOST = 10_000
/** Certificates whose contexts are made before somebody asks for them. */
const MADE_AHEAD = 1_000
/** Milliseconds of one step of making ahead. */
const STEP = 2
/** How long the keys of session tickets live. Milliseconds. */
const TICKET_KEYS_LIFE = 12 * 3_600_000
const TICKET_KEY_BYTES = 48
const NO_DEMAND: TlsDemand = {}

/**
 * The secure contexts of the process: one for each certificate and demand, kept while they are used. Their ticket keys
 * are made at the start and again twice a day; who comes with an older ticket shakes hands anew.
 */
export class TlsContexts {
  readonly #clock: Clock
  readonly #contexts: LRUCache<string, ServerContext>
  readonly #numbers = new WeakMap<ServerIdentity, number>()
  #count = 0
  #ticketKeys = randomBytes(TICKET_KEY_BYTES)
  #renewsAt: number
  #ahead: NodeJS.Immediate | undefined

  constructor({ clock, most = MOST }: TlsContextsParts) {
    this.#clock = clock
    this.#contexts = new LRUCache({ max: most })
    this.#renewsAt = clock.monotonic() + TICKET_KEYS_LIFE
  }

  /** Throws when certificate, key or authorities cannot be used. */
  of(identity: ServerIdentity, demand: TlsDemand = NO_DEMAND): ServerContext {
    this.#renew()
    const key = this.#key(identity, demand)
    let context = this.#contexts.get(key)
    if (context === undefined) {
      context = this.#make(identity, demand)
      this.#contexts.set(key, context)
    }
    return context
  }

  /** Makes the contexts of the first certificates, in small steps, so that their first clients need not wait. `failed` hears of those that cannot be used. */
  ahead(identities: Iterable<ServerIdentity>, failed: (identity: ServerIdentity, error: unknown) => void): void {
    this.stop()
    const wanted = identities[Symbol.iterator]()
    let left = Math.min(MADE_AHEAD, this.#contexts.max)
    const step = (): void => {
      const until = this.#clock.monotonic() + STEP
      this.#ahead = undefined
      while (left-- > 0) {
        const { value, done } = wanted.next()
        if (done === true) return
        try {
          this.of(value)
        } catch (error) {
          failed(value, error)
        }
        if (this.#clock.monotonic() >= until) {
          this.#ahead = setImmediate(step)
          return
        }
      }
    }
    this.#ahead = setImmediate(step)
  }

  /** Ends making ahead. */
  stop(): void {
    if (this.#ahead !== undefined) clearImmediate(this.#ahead)
    this.#ahead = undefined
  }

  #make({ chain, privateKey }: ServerIdentity, { authorities, ...demand }: TlsDemand): ServerContext {
    const context = serverContext({
      cert: chain,
      key: privateKey,
      ticketKeys: this.#ticketKeys,
      ...demand,
      ...(authorities === undefined ? {} : { ca: authorities })
    })
    return { context, certificate: new X509Certificate(chain).raw }
  }

  #key(identity: ServerIdentity, demand: TlsDemand): string {
    let number = this.#numbers.get(identity)
    if (number === undefined) {
      number = ++this.#count
      this.#numbers.set(identity, number)
    }
    if (demand === NO_DEMAND) return String(number)
    const { minVersion = '', maxVersion = '', clientCertificates = '', authorities = [] } = demand
    return [number, minVersion, maxVersion, clientCertificates, ...authorities].join('\n')
  }

  #renew(): void {
    const now = this.#clock.monotonic()
    if (now < this.#renewsAt) return
    this.#renewsAt = now + TICKET_KEYS_LIFE
    this.#ticketKeys = randomBytes(TICKET_KEY_BYTES)
    this.#contexts.clear()
  }
}
