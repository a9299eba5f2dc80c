import { ShardedMap } from '../lib/sharded-map.js'
import { Passes, type Steps } from '../lib/slices.js'
import type { SecretReference, SecretValues } from './plan.js'
import { asKind, type UnitChange } from './plan-changes.js'

/** Secret values by vault name and secret name. Immutable. */
export class SecretTable {
  /** Vault name → vault id. */
  readonly #vaults: ShardedMap<string>
  /** Vault id and secret name → value. */
  readonly #values: ShardedMap<string>

  private constructor(vaults: ShardedMap<string>, values: ShardedMap<string>) {
    this.#vaults = vaults
    this.#values = values
  }

  static readonly empty = new SecretTable(ShardedMap.empty(), ShardedMap.empty())

  get(vault: string, name: string): string | undefined {
    const id = this.#vaults.get(vault)
    return id === undefined ? undefined : this.at(id, name)
  }

  /** Returns the id of the vault with this name. */
  vaultNamed(name: string): string | undefined {
    return this.#vaults.get(name)
  }

  /** Returns a secret by vault id and name. */
  at(vault: string, name: string): string | undefined {
    return this.#values.get(placeOf(vault, name))
  }

  *editing(changes: readonly UnitChange[], values: SecretValues): Steps<SecretTable> {
    const passes = new Passes()
    const vaults = new Edits<string>()
    const found = new Edits<string>()
    for (const { before } of changes) {
      if (passes.due()) yield
      const vault = asKind(before, 'vault')
      if (vault !== undefined) vaults.drop(vault.name)
      const secret = asKind(before, 'secret')
      if (secret !== undefined) found.drop(placeOf(secret.vault, secret.name))
    }
    for (const { after } of changes) {
      if (passes.due()) yield
      const vault = asKind(after, 'vault')
      if (vault !== undefined) vaults.put(vault.name, vault.id)
      const secret = asKind(after, 'secret')
      const value = secretValue(secret?.value, values)
      if (secret !== undefined && value !== undefined) found.put(placeOf(secret.vault, secret.name), value)
    }
    if (vaults.empty && found.empty) return this
    return new SecretTable(yield* vaults.on(this.#vaults), yield* found.on(this.#values))
  }
}

/** Returns the value of a reference; undefined if it does not exist. */
export function secretValue(reference: SecretReference | undefined, values: SecretValues): string | undefined {
  return reference === undefined ? undefined : values.get(reference.secret)
}

/** The separator is unambiguous because ids contain no blank. */
const placeOf = (vault: string, name: string): string => `${vault} ${name}`

/** Changes of a map; the last change of a key applies. */
class Edits<V> {
  readonly #put = new Map<string, V>()
  readonly #drop = new Set<string>()

  get empty(): boolean {
    return this.#put.size === 0 && this.#drop.size === 0
  }

  put(key: string, value: V): void {
    this.#put.set(key, value)
    this.#drop.delete(key)
  }

  drop(key: string): void {
    this.#put.delete(key)
    this.#drop.add(key)
  }

  on(map: ShardedMap<V>): Steps<ShardedMap<V>> {
    return map.editing(this.#put, this.#drop)
  }
}
