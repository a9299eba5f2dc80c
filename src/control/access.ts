import { timingSafeEqual } from 'node:crypto'
import { AuthThrottle } from '../lib/auth-throttle.js'
import type { Clock } from '../lib/clock.js'
import { codeOf } from '../lib/errors.js'
import { newId } from '../lib/id.js'
import { hashOf } from '../lib/seal.js'
import { apiKey, botUser, credential } from '../resources/identities.js'
import type { RecordOf, Resource } from '../resources/resource.js'
import { AddressFilter, type AddressFilterCounts, type FilteredTraffic, refuses } from '../runtime/address-filter.js'
import type { SnapshotHolder } from '../runtime/snapshot.js'
import type { Store, StoreLog, StoreReader } from '../store/store.js'
import type { Principal, Role } from './calls.js'
import { ControlError, controlErrors, orUnavailable, refusedForNow } from './errors.js'
import type { Touched } from './units.js'

/** Kind of the records of users. They are no resource: the API neither lists nor changes them. */
export const USER = 'user'
/** Uniqueness space of the hashes of API keys. */
const KEY_SPACE = 'api_key_token'
/** Uniqueness space of the names of users. */
export const USER_NAMES = 'user_name'
/** Name of the administrator. */
const ADMINISTRATOR = 'administrator'

interface PrincipalsParts {
  readonly store: Store
  readonly clock: Clock
  /** Keys of the operator, which belong to the administrator. */
  readonly operatorKeys: { accepts(key: string): Promise<boolean> }
}

/** Owners of keys. The store has only hashes; results are cached until a write changes them. */
export class Principals {
  readonly #parts: PrincipalsParts
  readonly #administrator: Principal
  readonly #known = new Map<string, Principal>()
  /** Incremented by `forget`: results of earlier reads must not be cached afterwards. */
  #generation = 0

  private constructor(parts: PrincipalsParts, administrator: string) {
    this.#parts = parts
    this.#administrator = { id: administrator, role: 'administrator', subject: ADMINISTRATOR, key: null }
  }

  /** Opens the principals, and creates the account's first user if missing. */
  static async open(parts: PrincipalsParts): Promise<Principals> {
    const { store, clock } = parts
    const there = await store.keeperOf(USER_NAMES, ADMINISTRATOR)
    if (there !== undefined) return new Principals(parts, there.id)
    const { value: id } = await store.transact(newId('op', clock.wall()), async (tx) => {
      const other = await tx.keeperOf(USER_NAMES, ADMINISTRATOR)
      if (other !== undefined) return other.id
      const key = { kind: USER, id: newId('usr', clock.wall()) }
      await tx.insert({ ...key, body: { role: ADMINISTRATOR } })
      await tx.claim(key, USER_NAMES, ADMINISTRATOR)
      return key.id
    })
    return new Principals(parts, id)
  }

  /** Returns the owner of a key; undefined if the key is invalid. Fails with `FORBIDDEN` if its owner is inactive. */
  async authenticate(key: string): Promise<Principal | undefined> {
    const hash = hashOf(key)
    const known = this.#known.get(hash)
    if (known !== undefined) return known
    if (await this.#parts.operatorKeys.accepts(key)) return this.#administrator
    const generation = this.#generation
    const principal = await this.#read(hash)
    if (principal !== undefined && generation === this.#generation) this.#known.set(hash, principal)
    return principal
  }

  /** Drops cached results that the changes may invalidate. */
  forget(touched: readonly Pick<Touched, 'kind'>[]): void {
    if (touched.some(({ kind }) => kind === apiKey.name || kind === botUser.name || kind === USER)) this.forgetAll()
  }

  forgetAll(): void {
    this.#generation++
    this.#known.clear()
  }

  async #read(hash: string): Promise<Principal | undefined> {
    const { store } = this.#parts
    const keeper = await store.keeperOf(KEY_SPACE, hash)
    const stored = keeper === undefined ? undefined : await store.get(keeper.kind, keeper.id)
    if (stored === undefined) return undefined
    const { token, owner_id } = stored.body as unknown as RecordOf<typeof apiKey>['body']
    // The database's index has compared already, and not in constant time: it knows hashes only, which a caller cannot choose.
    if (token === null || !timingSafeEqual(Buffer.from(token), Buffer.from(hash))) return undefined
    return await this.#owner(owner_id, stored.id)
  }

  async #owner(id: string, key: string): Promise<Principal | undefined> {
    const { store } = this.#parts
    const user = await store.get(USER, id)
    if (user !== undefined) {
      const { role } = user.body as { readonly role: Role }
      return { id, role, subject: role, key }
    }
    const bot = await store.get(botUser.name, id)
    if (bot === undefined) return undefined
    const { active, name } = bot.body as unknown as RecordOf<typeof botUser>['body']
    if (!active) throw new ControlError(controlErrors.FORBIDDEN, 'the owner of this API key is not active')
    return { id, role: 'member', subject: name, key }
  }
}

/** Returns the user or bot with this id, independent of the key. A deleted one is a member without rights. */
export async function principalOf(reader: StoreReader, id: string): Promise<Principal> {
  const { role = 'member' } = ((await reader.get(USER, id))?.body ?? {}) as { readonly role?: Role }
  return { id, role, subject: role, key: null }
}

const CREDENTIAL_SPACE = 'credential_token'

/** The classes of traffic that the management listener carries: calls of the API, and pages for people. */
export type Entrance = Extract<FilteredTraffic, 'api' | 'dashboard'>

interface AccessParts {
  readonly store: Store
  readonly principals: Principals
  readonly clock: Clock
  readonly holder: SnapshotHolder
  readonly log: StoreLog
}

/** Decides which callers the management listener lets in: by their keys, and by the IP restrictions of the account. */
export class Access {
  readonly #parts: AccessParts
  readonly #filters: Readonly<Record<Entrance, AddressFilter>>
  readonly #throttle: AuthThrottle

  constructor(parts: AccessParts) {
    const { log, clock } = parts
    this.#parts = parts
    this.#throttle = new AuthThrottle(clock)
    this.#filters = { api: new AddressFilter('api', { log }), dashboard: new AddressFilter('dashboard', { log }) }
  }

  /**
   * Returns the owner of the key; undefined if the key is invalid. Fails with `FORBIDDEN` if its owner is inactive, and with
   * `KEYS_THROTTLED` after too many invalid keys from this address: then no key is compared, and the store is not read.
   */
  async authenticate(key: string, address?: string): Promise<Principal | undefined> {
    const throttle = this.#throttle
    const from = address ?? ''
    const wait = Math.max(throttle.wait(from, key), throttle.crowded(from, key))
    if (wait > 0) {
      const message = (seconds: number) => `too many keys that open nothing; the next one is looked at in ${seconds} s`
      throw refusedForNow(controlErrors.KEYS_THROTTLED, message, wait)
    }
    try {
      const principal = await orUnavailable(this.#parts.principals.authenticate(key))
      if (principal === undefined) throttle.refused(from, key)
      else throttle.accepted(from, key)
      return principal
    } catch (error) {
      if (codeOf(error) === controlErrors.FORBIDDEN.code) throttle.refused(from, key)
      throw error
    }
  }

  /** Returns the actual kind of an invalid key, for display; undefined if it is unknown in this account. */
  async otherThanKey(key: string): Promise<string | undefined> {
    return await orUnavailable(otherThanKey(this.#parts.store, key))
  }

  /** Is this address admitted? Matches of restrictions that only warn are logged, counted and allowed. */
  admits(address: string | undefined, entrance: Entrance = 'api'): boolean {
    return this.#filters[entrance].admits(this.#parts.holder.current(), address)
  }

  /** Is this address blocked now? Does not count or log, because it is called repeatedly while a response is sent. */
  keepsOut(address: string | undefined, entrance: Entrance): boolean {
    return refuses(this.#parts.holder.current(), entrance, address)
  }

  /** Counters of the management listener's IP restrictions. */
  get addressCounts(): Readonly<Record<Entrance, AddressFilterCounts>> {
    const { api, dashboard } = this.#filters
    return { api: api.counts, dashboard: dashboard.counts }
  }
}

/**
 * Returns the actual kind of an invalid key, for display: the id of a record, or the token of an agent's credential; undefined if it is unknown
 * in this account. Ids are recognized by their form, so that the response does not reveal which exist.
 */
async function otherThanKey(reader: StoreReader, key: string): Promise<string | undefined> {
  const resource = [apiKey, credential].find((one) => isIdOf(one, key))
  if (resource !== undefined) return `the id of a record (${resource.name}), not a token`
  const keeper = await reader.keeperOf(CREDENTIAL_SPACE, hashOf(key))
  return keeper === undefined ? undefined : 'the token of a credential, which opens agent sessions and not this API'
}

function isIdOf({ idPrefix }: Resource, key: string): boolean {
  return key.startsWith(`${idPrefix}_`) && /^[0-9A-Za-z]{27}$/.test(key.slice(idPrefix.length + 1))
}
