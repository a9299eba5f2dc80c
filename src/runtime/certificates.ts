import { ClientAuthority } from '../lib/crl.js'
import { ShardedMap } from '../lib/sharded-map.js'
import { Passes, type Steps } from '../lib/slices.js'
import type { CertificateUnit, SecretValues } from './plan.js'
import { asKind, type UnitChange } from './plan-changes.js'
import { secretValue } from './secrets.js'

/** A certificate that can be presented. One object as long as its unit stays as it was. */
export interface Certificate {
  readonly key: string
  /** PEM, leaf first. */
  readonly chain: string
  readonly privateKey: string
  readonly notAfter: string
}

/**
 * Which certificate a name presents: that of its reserved domain, else that of the longest wildcard above it, else an
 * uploaded one that names it (exactly, then by a wildcard of one label; of several the one that lives longest). Immutable.
 */
export class Certificates {
  readonly #certificates: ShardedMap<Certificate>
  /** Reserved name → key of its certificate. */
  readonly #domains: ShardedMap<string>
  /** Name in certificates → their keys, the one that lives longest first. */
  readonly #names: ShardedMap<readonly string[]>
  /** By key. */
  readonly #authorities: ShardedMap<ClientAuthority>

  private constructor(
    certificates: ShardedMap<Certificate>,
    domains: ShardedMap<string>,
    names: ShardedMap<readonly string[]>,
    authorities: ShardedMap<ClientAuthority>
  ) {
    this.#certificates = certificates
    this.#domains = domains
    this.#names = names
    this.#authorities = authorities
  }

  static readonly empty = new Certificates(
    ShardedMap.empty(),
    ShardedMap.empty(),
    ShardedMap.empty(),
    ShardedMap.empty()
  )

  /** `name`: lower-case. */
  find(name: string): Certificate | undefined {
    return this.#ofDomain(name) ?? this.#naming(name) ?? this.#naming(`*${afterLabel(name)}`)
  }

  /** By the key of its unit; undefined also when its private key does not open. */
  at(key: string): Certificate | undefined {
    return this.#certificates.get(key)
  }

  /** By the key of its unit; one object as long as that stays as it was. */
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
    const names = new Map<string, Map<string, string>>()
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
      for (const name of unit.names) this.#keysOf(names, name).set(key, unit.notAfter)
    }
    const put = new Set(certificates.map(([key]) => key))
    return new Certificates(
      yield* this.#certificates.editing(certificates, without(gone.certificates, put)),
      yield* this.#domains.editing(domains, gone.domains),
      yield* this.#names.editing(named(names), unnamed(names)),
      yield* this.#authorities.editing(authorities, gone.authorities)
    )
  }

  #ofDomain(name: string): Certificate | undefined {
    const exact = this.#at(this.#domains.get(name))
    if (exact !== undefined) return exact
    for (let dot = name.indexOf('.'); dot !== -1; dot = name.indexOf('.', dot + 1)) {
      const wildcard = this.#at(this.#domains.get(`*${name.slice(dot)}`))
      if (wildcard !== undefined) return wildcard
    }
    return undefined
  }

  #naming(name: string): Certificate | undefined {
    return this.#at(this.#names.get(name)?.[0])
  }

  #at(key: string | undefined): Certificate | undefined {
    return key === undefined ? undefined : this.#certificates.get(key)
  }

  /** The certificates that name `name`, by key with the end of their validity, to be edited. */
  #keysOf(names: Map<string, Map<string, string>>, name: string): Map<string, string> {
    let keys = names.get(name)
    if (keys === undefined) {
      const known = this.#names.get(name) ?? []
      keys = new Map(known.map((key) => [key, this.#certificates.get(key)?.notAfter ?? '']))
      names.set(name, keys)
    }
    return keys
  }
}

const CONCERNING: ReadonlySet<string> = new Set(['certificate', 'domain', 'authority'])

function compiled(key: string, unit: CertificateUnit, values: SecretValues): Certificate | undefined {
  const privateKey = secretValue(unit.privateKey, values)
  return privateKey === undefined ? undefined : { key, chain: unit.chain, privateKey, notAfter: unit.notAfter }
}

/** RFC 3339 in UTC compares as text; equal ends are ordered by key, so that two ways to one plan give one answer. */
function longestFirst(keys: ReadonlyMap<string, string>): string[] {
  return [...keys].sort(([a, x], [b, y]) => (x === y ? (a < b ? -1 : 1) : x < y ? 1 : -1)).map(([key]) => key)
}

function* without(keys: Iterable<string>, others: ReadonlySet<string>): Generator<string> {
  for (const key of keys) if (!others.has(key)) yield key
}

type Names = ReadonlyMap<string, ReadonlyMap<string, string>>

function* named(names: Names): Generator<[string, string[]]> {
  for (const [name, keys] of names) if (keys.size > 0) yield [name, longestFirst(keys)]
}

function* unnamed(names: Names): Generator<string> {
  for (const [name, keys] of names) if (keys.size === 0) yield name
}

function afterLabel(name: string): string {
  const dot = name.indexOf('.')
  return dot === -1 ? '' : name.slice(dot)
}
