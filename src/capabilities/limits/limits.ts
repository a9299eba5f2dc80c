import { createHash, createHmac, randomBytes } from 'node:crypto'
import type { Call } from '../../control/calls.js'
import { ControlError, controlErrors, notFound } from '../../control/errors.js'
import type { Writer } from '../../control/writer.js'
import { LedgerAway } from '../../features/rate-limit/leases/cluster-window.js'
import type { Clock } from '../../lib/clock.js'
import { type Json, timestampText } from '../../lib/json.js'
import { Slices } from '../../lib/slices.js'
import type { LimitBucket, LimitedKey, LiveLimit, PolicyLimit } from '../../policy/live-limit.js'
import { httpsEdge } from '../../resources/edges.js'
import { cloudEndpointPath } from '../../resources/endpoints.js'
import { entryOf } from '../../resources/entries.js'
import { commandEventType } from '../../resources/resource.js'
import { ownerIdOf, UnitNames } from '../../runtime/names.js'
import type { PolicyUnit } from '../../runtime/plan.js'
import type { Snapshot } from '../../runtime/snapshot.js'
import type { StoreLog } from '../../store/store.js'
import { isSensitive, REDACTED } from '../../telemetry/redaction.js'
import type { LimitBucketView, LimitList, LimitView, RefusedKeys } from './answers.js'
import { invalid, valueOfKey, valuesOf } from './bucket-values.js'

/** Milliseconds. */
const MINUTE = 60_000

/** Owner of the policy that contains a limit. */
interface Owner {
  readonly kind: 'options' | 'route' | 'edge' | 'endpoint'
  readonly id: string
  /** Display name: hosts and path. */
  readonly name: string
  /** Path of the record below the base URL of the API; undefined if the owner has no record. */
  readonly path: string | undefined
}

/** A limit of the running configuration. */
interface Listed extends PolicyLimit {
  readonly id: string
  readonly owner: Owner
  /** Source file of the policy. */
  readonly source: string
  /** Marks the parts of a key whose names look secret. */
  readonly secret: readonly boolean[]
}

/** A key with its displayed values. */
interface NamedKey {
  readonly key: string
  readonly values: readonly Json[] | null
}

interface Listing {
  readonly all: readonly Listed[]
  readonly byId: ReadonlyMap<string, Listed>
}

/** Selects and orders the listed limits. */
interface LimitQuery {
  readonly limit: number
  readonly before: string | undefined
  /** Text to find in a limit, in any case. */
  readonly text: string | undefined
  /** `refused`: limits with most refusals in the last minutes first. */
  readonly order: 'owner' | 'refused'
}

/** A bucket as a request names it; exactly one member is given. */
export interface BucketQuery {
  /** The value of a key that has one part, as text. */
  readonly key: string | undefined
  /** The values of the parts, as a JSON list. */
  readonly values: string | undefined
  /** Name of the bucket in the list of refused keys. */
  readonly bucket: string | undefined
}

interface LimitsParts {
  readonly snapshot: () => Snapshot
  readonly clock: Clock
  readonly baseUrl: () => string
  /** Gathers the counts of the worker threads. */
  readonly gather: () => Promise<void>
  readonly writer: Pick<Writer, 'write'>
  readonly log: StoreLog
}

/** The rate limits of the running configuration, and their buckets. Methods fail with a ControlError, `NOT_FOUND` for an unknown id. */
export class Limits {
  readonly #parts: LimitsParts
  /** Names buckets outside of this process: a name cannot be used to try keys. */
  readonly #salt = randomBytes(32)
  /** Limits by snapshot: a snapshot does not change. */
  readonly #listings = new WeakMap<Snapshot['tables'], Promise<Listing>>()

  constructor(parts: LimitsParts) {
    this.#parts = parts
  }

  /** Returns one page of the limits. */
  async list({ limit, before, text, order }: LimitQuery): Promise<LimitList> {
    await this.#parts.gather()
    const { all } = await this.#listing()
    const wanted = text === undefined ? all : all.filter((one) => textOf(one).includes(text.toLowerCase()))
    const sorted = order === 'refused' ? mostRefused(wanted) : wanted
    const start = before === undefined ? 0 : sorted.findIndex(({ id }) => id === before) + 1
    if (before !== undefined && start === 0)
      throw invalid('before_id', 'names no limit of this list; it may be gone: begin anew')
    const shown = sorted.slice(start, start + limit)
    const next = start + limit < sorted.length ? shown.at(-1)?.id : undefined
    const uri = `${this.#parts.baseUrl()}/limits`
    const following = new URLSearchParams({ before_id: next ?? '', limit: String(limit), order })
    if (text !== undefined) following.set('text', text)
    return {
      limits: shown.map((one) => this.#shown(one)),
      total: sorted.length,
      uri,
      next_page_uri: next === undefined ? null : `${uri}?${following}`
    }
  }

  /** Returns one limit, with the series of its last minutes. */
  async get(id: string): Promise<LimitView> {
    const one = await this.#find(id)
    const { stepSeconds, steps } = one.limit.series()
    const now = this.#parts.clock.wall()
    const shown = steps.map(({ age, ...step }) => ({ at: timestampText(now - age), ...step }))
    return { ...this.#shown(one), series: { step_seconds: stepSeconds, steps: shown } }
  }

  /** Returns the keys that the limit refused most in the last minutes. Fails with `LIMIT_KEYS_OFF`. */
  async top(id: string, most: number): Promise<RefusedKeys> {
    const one = await this.#find(id)
    const keys = one.limit.limitedKeys(most)
    if (keys === undefined)
      throw new ControlError(controlErrors.LIMIT_KEYS_OFF, 'limiter.top_keys of the options is off')
    const now = this.#parts.clock.wall()
    return {
      limit: this.#reference(one),
      keys: keys.map((key) => ({
        bucket: key.key === undefined ? null : this.#nameOf(one, key.key),
        key: shownKey(one, key),
        failed: key.failed,
        refused: key.most,
        refused_at_least: key.least,
        last_refused_at: timestampText(now - key.age)
      }))
    }
  }

  /** Returns one bucket, also of a key that has none yet. */
  async bucket(id: string, query: BucketQuery): Promise<LimitBucketView> {
    const one = await this.#find(id)
    return await this.#bucket(one, this.#keyOf(one, query))
  }

  /**
   * Resets a bucket and returns it. Its event is stored first, so that every reset is traced. Fails with `BUCKET_SHARED`, or as a write does.
   */
  async reset(id: string, query: BucketQuery, call: Call): Promise<LimitBucketView> {
    const one = await this.#find(id)
    const { limit } = one
    const named = this.#keyOf(one, query)
    const name = this.#nameOf(one, named.key)
    const { used, shared } = await asked(limit.bucket(named.key))
    // Where each request brings a capacity, there may be one for which a reset helps.
    if (shared >= (limit.capacity.constant ?? Number.POSITIVE_INFINITY)) {
      const message = 'the memory of the limiter is full, and what the bucket counts is shared with other keys'
      throw new ControlError(controlErrors.BUCKET_SHARED, message)
    }
    const key = limit.limitedKeys(0) === undefined ? null : named.values
    const about = { limit: this.#reference(one), bucket: name, key, used }
    await this.#parts.writer.write(call, {}, (draft) => draft.commanded(commandEventType('limit_bucket_reset'), about))
    await asked(limit.empty(named.key))
    const { id: principal, subject } = call.principal
    this.#parts.log.info(
      { limit: id, bucket: name, principal, subject, operation_id: call.operationId },
      'a bucket of a limit was emptied'
    )
    return await this.#bucket(one, named)
  }

  async #bucket(one: Listed, { key, values }: NamedKey): Promise<LimitBucketView> {
    const now = await asked(one.limit.bucket(key))
    return { limit: this.#reference(one), bucket: this.#nameOf(one, key), key: values, ...this.#state(one, now) }
  }

  #state({ limit }: Listed, bucket: LimitBucket) {
    const { used, shared, remaining, resetSeconds, retryAfterSeconds } = bucket
    const now = this.#parts.clock.wall()
    return {
      capacity: limit.capacity.constant ?? null,
      used,
      shared,
      remaining: remaining ?? null,
      reset_seconds: resetSeconds,
      resets_at: timestampText(now + resetSeconds * 1_000),
      retry_after_seconds: retryAfterSeconds ?? null,
      next_admitted_at: retryAfterSeconds === undefined ? null : timestampText(now + retryAfterSeconds * 1_000)
    }
  }

  /** Returns the key that a request names, with its displayed values. */
  #keyOf(one: Listed, { key, values, bucket }: BucketQuery): NamedKey {
    const { limit } = one
    if (bucket !== undefined) {
      const found = limit
        .limitedKeys(Number.MAX_SAFE_INTEGER)
        ?.find((kept) => kept.key !== undefined && this.#nameOf(one, kept.key) === bucket)
      if (found?.key === undefined) throw invalid('bucket', 'is no bucket that refuses requests now; give its key')
      return { key: found.key, values: shownKey(one, found) }
    }
    const given = values === undefined ? [valueOfKey(one, key ?? '')] : valuesOf(one, values)
    return { key: limit.keyOf(given), values: given.map((value, i) => (one.secret[i] === true ? REDACTED : value)) }
  }

  #nameOf({ limit }: Listed, key: string): string {
    const digest = createHmac('sha256', this.#salt).update(`${limit.identity}\n${key}`).digest('hex')
    return `bkt_${digest.slice(0, 20)}`
  }

  #uri({ id }: Listed): string {
    return `${this.#parts.baseUrl()}/limits/${id}`
  }

  #reference(one: Listed) {
    return { id: one.id, uri: this.#uri(one), name: one.limit.name }
  }

  #shown(one: Listed) {
    const { id, limit, owner, phase, rule, ruleIndex, place, source } = one
    const { admitted, refused, wouldRefuse, buckets } = limit.counts()
    const { path, ...named } = owner
    return {
      id,
      uri: this.#uri(one),
      owner: { ...named, uri: path === undefined ? null : `${this.#parts.baseUrl()}${path}` },
      policy: { source, line: place.line, column: place.column },
      phase,
      rule,
      rule_index: ruleIndex,
      name: limit.name,
      algorithm: limit.algorithm,
      scope: limit.scope,
      capacity: limit.capacity.constant ?? null,
      capacity_expression: limit.capacity.constant === undefined ? limit.capacity.source : null,
      cost: limit.cost.constant ?? null,
      cost_expression: limit.cost.constant === undefined ? limit.cost.source : null,
      rate: `${limit.seconds}s`,
      rate_seconds: limit.seconds,
      bucket_key: limit.bucketKey.map((part) => part.source),
      enforce: limit.enforced,
      buckets,
      admitted,
      refused,
      would_refuse: wouldRefuse,
      recent: { ...limit.recent() },
      last_minute: lastMinute(limit)
    }
  }

  async #find(id: string): Promise<Listed> {
    await this.#parts.gather()
    const found = (await this.#listing()).byId.get(id)
    if (found === undefined) throw notFound(`limit ${id}`)
    return found
  }

  #listing(): Promise<Listing> {
    const snapshot = this.#parts.snapshot()
    const known = this.#listings.get(snapshot.tables)
    if (known !== undefined) return known
    const made = listingOf(snapshot)
    this.#listings.set(snapshot.tables, made)
    return made
  }
}

async function listingOf({ plan, tables }: Snapshot): Promise<Listing> {
  const slices = new Slices()
  const all: Listed[] = []
  for (const [key, { limits }] of tables.policies) {
    if (slices.due) await slices.rest()
    const unit = plan.units.get(key)
    if (limits.length === 0 || unit?.kind !== 'policy') continue
    const owner = ownerOf(plan.units, unit)
    for (const one of limits) {
      const { identity, bucketKey } = one.limit
      const id = `lim_${createHash('sha256').update(identity).digest('hex').slice(0, 24)}`
      all.push({ ...one, id, owner, source: unit.source, secret: bucketKey.map(({ source }) => namesSecret(source)) })
    }
  }
  // Limits of one policy keep the order of the document.
  all.sort((a, b) => compare(a.owner.name, b.owner.name) || compare(a.owner.id, b.owner.id))
  return { all, byId: new Map(all.map((one) => [one.id, one])) }
}

/** Reports `UNAVAILABLE` while the store of a cluster limit does not respond. */
async function asked<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof LedgerAway) throw new ControlError(controlErrors.UNAVAILABLE, error.message)
    throw error
  }
}

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)

function mostRefused(all: readonly Listed[]): Listed[] {
  return all
    .map((one) => ({ one, refused: one.limit.recent().refused }))
    .sort((a, b) => b.refused - a.refused)
    .map(({ one }) => one)
}

function ownerOf(units: Snapshot['plan']['units'], { owner, author }: PolicyUnit): Owner {
  const id = ownerIdOf(owner)
  const name = new UnitNames(() => units).ownerOf(id)
  const route = units.get(`route:${id}`)
  const edge = units.get(`edge:${route?.kind === 'route' ? route.edge : id}`)
  if (name === undefined || (edge?.kind === 'edge' && edge.hosts === 'every'))
    return { kind: 'options', id, name: 'every other host', path: undefined }
  const cloud = cloudEndpointPath(id)
  // Several agents may serve one address, each with its own endpoint.
  if (author === 'agent' || cloud !== undefined) return { kind: 'endpoint', id, name, path: cloud }
  if (route?.kind === 'route') return { kind: 'route', id, name, path: `${httpsEdge.path}/${route.edge}/routes/${id}` }
  const { path } = entryOf(id) ?? httpsEdge
  return { kind: 'edge', id, name, path: `${path}/${id}` }
}

function textOf({ id, limit, owner, rule }: Listed): string {
  return [id, limit.name, owner.id, owner.name, rule].join('\n').toLowerCase()
}

/** Names of variables and strings of an expression. */
const NAMES = /'([^']*)'|"([^"]*)"|[A-Za-z_]\w*/g
/** Namespaces of action results, whose names are independent of their values, and `cookies` before an index. */
const NAMESPACES = /\bactions\s*\.\s*\w+\s*\.\s*\w+\s*\.|\bcookies\s*(?=\[)/g

/** Does the expression name something that sounds like a secret, such as the header Authorization? */
function namesSecret(source: string): boolean {
  for (const [word, single, double] of source.replace(NAMESPACES, '').matchAll(NAMES))
    if (isSensitive(single ?? double ?? word)) return true
  return false
}

function shownKey({ secret }: Listed, { text }: LimitedKey): readonly Json[] | null {
  if (text === undefined) return null
  const values = JSON.parse(text) as readonly Json[]
  return values.map((value, i) => (secret[i] === true && value !== null ? REDACTED : value))
}

/** Sums the decisions of the steps that began in the last minute. */
function lastMinute(limit: LiveLimit): LimitView['last_minute'] {
  const sum = { admitted: 0, refused: 0 }
  for (const { age, admitted, refused } of limit.series().steps) {
    if (age >= MINUTE) continue
    sum.admitted += admitted
    sum.refused += refused
  }
  return sum
}
