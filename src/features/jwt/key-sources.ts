import { LRUCache } from 'lru-cache'
import { EvaluationError, type Template } from '../../expression/expression.js'
import type { Flow } from '../../flow/flow.js'
import { type BaseServices, serviceKey } from '../../policy/services.js'
import { type KeySet, keySetOf, readKeySet, secretKey } from './jwks.js'
import { fetchKeySet, KeySetCache, type LoadedKeySet, readKeySetFile } from './jwks-cache.js'

/** Source of keys. `current` never waits, `ready` loads missing keys, `renewed` reloads; undefined: keys are unavailable. */
export interface KeySource {
  current(flow: Flow): KeySet | undefined
  ready(flow: Flow): Promise<KeySet | undefined>
  renewed(flow: Flow): Promise<KeySet | undefined>
  /** Returns true if the last load failed, so that keys may be missing. */
  failing(flow: Flow): boolean
}

export const ENCODINGS = ['utf8', 'base64', 'base64url', 'hex'] as const

/** Maximum number of cached locations; actions keep their own reference. */
const MAX_PLACES = 1_024
/** Maximum number of cached locations of one action with `${…}`. */
const MAX_CHOSEN_PLACES = 64

/** Services for loading key sets. */
export type KeySetServices = Pick<BaseServices, 'clock' | 'log' | 'outbound'>

/** Key sets by location, kept across configurations: shared by all actions of a process, so that each server is queried once. */
export class KeySetPlaces {
  readonly #services: KeySetServices
  readonly #caches: LRUCache<string, KeySetCache>

  constructor(services: KeySetServices, max = MAX_PLACES) {
    this.#services = services
    this.#caches = new LRUCache({ max })
  }

  /** Returns a separate cache for locations chosen by requests, which evict only each other. */
  chosen(): KeySetPlaces {
    return new KeySetPlaces(this.#services, MAX_CHOSEN_PLACES)
  }

  /** Returns the key set of a URL. `source`: name for logs, because a URL may contain a key or client input. */
  url(url: string, source: string): KeySetCache {
    return this.#cache(`url ${url}`, source, false, () => fetchKeySet(this.#services.outbound, url))
  }

  /** Returns the key set of a file. `folders`: allowed real locations of the file. */
  file(path: string, folders: readonly string[]): KeySetCache {
    return this.#cache(`file ${path}`, path, true, () => readKeySetFile(path, folders))
  }

  #cache(place: string, source: string, secrets: boolean, load: () => Promise<LoadedKeySet>): KeySetCache {
    let cache = this.#caches.get(place)
    if (cache === undefined) {
      const { clock, log } = this.#services
      const fields = { action: 'jwt-validation', source }
      const failed = (reason: string) => log.warn({ ...fields, reason }, 'the keys of tokens could not be loaded')
      cache = new KeySetCache({ clock, secrets, load, failed })
      this.#caches.set(place, cache)
    }
    return cache
  }
}

/** Key sets by location, shared by all actions. */
export const keySets = serviceKey('key_sets', (base) => new KeySetPlaces(base))

/** Returns a source for the key set that `cacheOf` finds. */
export function loadedKeys(cacheOf: (flow: Flow) => KeySetCache): KeySource {
  return {
    current: (flow) => {
      flow.explainer?.unknown?.('keys')
      return cacheOf(flow).current()
    },
    ready: (flow) => cacheOf(flow).ready(),
    renewed: (flow) => cacheOf(flow).renewed(),
    failing: (flow) => cacheOf(flow).failing
  }
}

/** Returns a source for keys in the document or in secrets; `read` throws `EvaluationError` if there is none. */
export function heldKeys(text: Template, read: (text: string) => KeySet): KeySource {
  let last: { readonly text: string; readonly set: KeySet } | undefined
  const current = (flow: Flow): KeySet => {
    const now = text.text(flow)
    if (last?.text !== now) last = { text: now, set: read(now) }
    return last.set
  }
  return {
    current,
    ready: async (flow) => current(flow),
    renewed: async (flow) => current(flow),
    failing: () => false
  }
}

/** Reads a JSON Web Key, a key set, or PEM. Throws `EvaluationError`. */
export function readHeldKeys(text: string): KeySet {
  const set = readKeySet(text, { secrets: true })
  if (set === undefined || set.keys.length === 0) throw new EvaluationError('failed', NO_KEY)
  return set
}

export interface SharedSecret {
  readonly encoding?: (typeof ENCODINGS)[number]
  readonly kid?: string
  readonly algorithm?: string
}

/** Returns the key of a shared secret. Throws `EvaluationError`. */
export function readSharedSecret(text: string, { encoding = 'utf8', kid, algorithm }: SharedSecret): KeySet {
  // With a public key as the secret every client could sign.
  if (text.includes('-----BEGIN ')) throw new EvaluationError('failed', NO_SECRET)
  const key = secretKey(Buffer.from(text, encoding), { kid, algorithm })
  if (key === undefined) throw new EvaluationError('failed', NO_SECRET)
  return keySetOf([key])
}

const NO_KEY = 'the text holds no key that checks signatures'
const NO_SECRET = 'a shared secret has at least 32 bytes for HS256, 48 for HS384, 64 for HS512, and is no PEM'
