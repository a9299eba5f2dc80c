import { isIP } from 'node:net'
import { ClientAuthority } from '../lib/crl.js'
import { ShardedMap } from '../lib/sharded-map.js'
import { Passes, type Steps } from '../lib/slices.js'
import type { CertificateUnit, SecretValues } from './plan.js'
import { asKind, type UnitChange } from './plan-changes.js'
import { secretValue } from './secrets.js'

/** Certificate to present. The object stays the same while its unit is unchanged. */
export interface Certificate {
  readonly key: string
  /** PEM, leaf first. */
  readonly chain: string
  readonly privateKey: string
  /** Validity, milliseconds since the Unix epoch. */
  readonly notBefore: number
  readonly notAfter: number
  /** rsa, ecdsa or ed25519. */
  readonly keyType: string
  /** Certificate for the same name with another key type; each client gets the one that it supports. */
  readonly also?: Certificate
}

/**
 * Selects the certificate for a name, in this order: valid before expired, exact name before the wildcard of its first label, reserved
 * domain before an uploaded certificate, latest expiry first. Immutable.
 */
export class Certificates {
  readonly #certificates: ShardedMap<Certificate>
  /** Reserved name → key of its certificate. */
  readonly #domains: ShardedMap<string>
  /** Name or address in certificates → certificate keys, latest expiry first. */
  readonly #names: ShardedMap<readonly string[]>
  /** Addresses that certificates contain. */
  readonly #addresses: ReadonlySet<string>
  /** By key. */
  readonly #authorities: ShardedMap<ClientAuthority>

  private constructor(
    certificates: ShardedMap<Certificate>,
    domains: ShardedMap<string>,
    names: ShardedMap<readonly string[]>,
    addresses: ReadonlySet<string>,
    authorities: ShardedMap<ClientAuthority>
  ) {
    this.#certificates = certificates
    this.#domains = domains
    this.#names = names
    this.#addresses = addresses
    this.#authorities = authorities
  }

  static readonly empty = new Certificates(
    ShardedMap.empty(),
    ShardedMap.empty(),
    ShardedMap.empty(),
    new Set(),
    ShardedMap.empty()
  )

  /**
   * Returns the certificate for `name`: a lower-case host name or an IP address in canonical form. `now`: milliseconds since the Unix
   * epoch.
   */
  find(name: string, now: number): Certificate | undefined {
    let first: Certificate | undefined
    let chosen: Certificate | undefined
    for (const candidate of this.#candidates(name)) {
      first ??= candidate
      if (now < candidate.notBefore || now >= candidate.notAfter) continue
      if (chosen !== undefined && candidate.keyType !== chosen.keyType) return both(chosen, candidate)
      chosen ??= candidate
    }
    return chosen ?? first
  }

  /** Returns true if `name` has a certificate, valid or not. */
  has(name: string): boolean {
    return this.#candidates(name).next().done !== true
  }

  /**
   * Returns the certificate for a client without SNI, as clients send none for an address (RFC 6066 3): that of the local `address`. Behind
   * address translation the client dialled another address: then the certificate of the only address that has one.
   */
  findForAddress(address: string, now: number): Certificate | undefined {
    const [only] = this.#addresses.size === 1 ? this.#addresses : []
    return this.find(address, now) ?? (only === undefined ? undefined : this.find(only, now))
  }

  /** Returns a certificate by its unit's key; undefined also if its private key cannot be decrypted. */
  at(key: string): Certificate | undefined {
    return this.#certificates.get(key)
  }

  /** Returns an authority by its unit's key. The object stays the same while the unit is unchanged. */
  authority(key: string): ClientAuthority | undefined {
    return this.#authorities.get(key)
  }

  *[Symbol.iterator](): Iterator<Certificate> {
    for (const [, certificate] of this.#certificates) yield certificate
  }

  *editing(changes: readonly UnitChange[], values: SecretValues): Steps<Certificates> {
    const concerned: UnitChange[] = []
    const passes = new Passes()
    for (const change of changes) {
      if (CONCERNING.has((change.after ?? change.before)?.kind ?? '')) concerned.push(change)
      if (passes.due()) yield
    }
    if (concerned.length === 0) return this
    const certificates: [string, Certificate][] = []
    const domains: [string, string][] = []
    const authorities: [string, ClientAuthority][] = []
    const gone = { certificates: [] as string[], domains: new Set<string>(), authorities: [] as string[] }
    const names = new Map<string, Map<string, number>>()
    for (const { key, before, after } of concerned) {
      yield
      const domain = asKind(before, 'domain')
      if (domain !== undefined) gone.domains.add(domain.name)
      const certificate = asKind(before, 'certificate')
      if (certificate !== undefined) {
        gone.certificates.push(key)
        for (const name of certificate.names) this.#keysOf(names, name).delete(key)
      }
      if (before?.kind === 'authority' && after === undefined) gone.authorities.push(key)
    }
    for (const { key, after } of concerned) {
      yield
      const domain = asKind(after, 'domain')
      if (domain?.certificate !== undefined) {
        domains.push([domain.name, domain.certificate])
        gone.domains.delete(domain.name)
      }
      const authority = asKind(after, 'authority')
      if (authority !== undefined) authorities.push([key, new ClientAuthority(authority.pem, authority.revoked)])
      const unit = asKind(after, 'certificate')
      const made = unit === undefined ? undefined : compiled(key, unit, values)
      if (unit === undefined || made === undefined) continue
      certificates.push([key, made])
      for (const name of unit.names) this.#keysOf(names, name).set(key, made.notAfter)
    }
    const put = new Set(certificates.map(([key]) => key))
    return new Certificates(
      yield* this.#certificates.editing(certificates, without(gone.certificates, put)),
      yield* this.#domains.editing(domains, gone.domains),
      yield* this.#names.editing(named(names), unnamed(names)),
      addressesAfter(this.#addresses, names),
      yield* this.#authorities.editing(authorities, gone.authorities)
    )
  }

  *#candidates(name: string): Generator<Certificate> {
    const dot = name.indexOf('.')
    for (const one of dot === -1 ? [name] : [name, `*${name.slice(dot)}`]) {
      const keys = [this.#domains.get(one), ...(this.#names.get(one) ?? [])]
      for (const key of keys) {
        const certificate = this.#at(key)
        if (certificate !== undefined) yield certificate
      }
    }
  }

  #at(key: string | undefined): Certificate | undefined {
    return key === undefined ? undefined : this.#certificates.get(key)
  }

  /** Returns the editable map of the certificates for `name`: key → expiry. */
  #keysOf(names: Map<string, Map<string, number>>, name: string): Map<string, number> {
    let keys = names.get(name)
    if (keys === undefined) {
      const known = this.#names.get(name) ?? []
      keys = new Map(known.map((key) => [key, this.#certificates.get(key)?.notAfter ?? 0]))
      names.set(name, keys)
    }
    return keys
  }
}

const CONCERNING: ReadonlySet<string> = new Set(['certificate', 'domain', 'authority'])

function compiled(key: string, unit: CertificateUnit, values: SecretValues): Certificate | undefined {
  const { chain, keyType, notBefore, notAfter } = unit
  const privateKey = secretValue(unit.privateKey, values)
  if (privateKey === undefined) return undefined
  return { key, chain, privateKey, keyType, notBefore: Date.parse(notBefore), notAfter: Date.parse(notAfter) }
}

const pairs = new WeakMap<Certificate, WeakMap<Certificate, Certificate>>()

/** Returns the same object for the same pair, because connections and TLS contexts are cached by it. */
function both(first: Certificate, second: Certificate): Certificate {
  const known = pairs.get(first) ?? new WeakMap<Certificate, Certificate>()
  const made = known.get(second) ?? { ...first, also: second }
  known.set(second, made)
  pairs.set(first, known)
  return made
}

/** Equal expiry times are ordered by key, so that the result does not depend on the order of changes. */
function longestFirst(keys: ReadonlyMap<string, number>): string[] {
  return [...keys].sort(([a, x], [b, y]) => (x === y ? (a < b ? -1 : 1) : y - x)).map(([key]) => key)
}

function addressesAfter(before: ReadonlySet<string>, names: Names): ReadonlySet<string> {
  let after: Set<string> | undefined
  for (const [name, keys] of names) {
    if (isIP(name) === 0 || before.has(name) === keys.size > 0) continue
    after ??= new Set(before)
    if (keys.size > 0) after.add(name)
    else after.delete(name)
  }
  return after ?? before
}

function* without(keys: Iterable<string>, others: ReadonlySet<string>): Generator<string> {
  for (const key of keys) if (!others.has(key)) yield key
}

type Names = ReadonlyMap<string, ReadonlyMap<string, number>>

function* named(names: Names): Generator<[string, string[]]> {
  for (const [name, keys] of names) if (keys.size > 0) yield [name, longestFirst(keys)]
}

function* unnamed(names: Names): Generator<string> {
  for (const [name, keys] of names) if (keys.size === 0) yield name
}
