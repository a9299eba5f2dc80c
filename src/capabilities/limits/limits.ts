import type { Call } from '../../control/calls.js'
import { ControlError, controlErrors, notFound } from '../../control/errors.js'
import { mustHave } from '../../control/rights.js'
import type { Writer } from '../../control/writer.js'
import type { Json } from '../../lib/json.js'
import { commandEventType } from '../../resources/resource.js'
import type { StoreLog } from '../../store/store.js'

/** Which limits are listed, and in what order. */
export interface LimitQuery {
  readonly limit: number
  /** Goes on behind this one. */
  readonly before: string | undefined
  /** Stands in what is shown of a limit, whatever its case. */
  readonly text: string | undefined
  /** `refused`: those that refuse most now come first. */
  readonly order: 'owner' | 'refused'
}

/** A bucket as a request names it: one of the three. */
export interface BucketQuery {
  /** The value of a key that has one part, as text. */
  readonly key: string | undefined
  /** The values of the parts, as a JSON list. */
  readonly values: string | undefined
  /** What the list of refused keys, and the bucket itself, call it. */
  readonly bucket: string | undefined
}

/** What is done to one bucket. */
interface BucketHandle {
  /** As the API shows it. */
  show(): Promise<Json>
  /** What can be said of it in events: without what must not be kept. */
  readonly about: Json
  /** Its name, which does not tell its key. */
  readonly name: string
  /** Is so much of it shared with others that it would refuse on when it is emptied? */
  shared(): Promise<boolean>
  empty(): Promise<void>
}

/** The limits of this process. `undefined`: there is no such limit. What fails, fails with a ControlError. */
export interface LimitSource {
  /** `next`: the id to go on behind; undefined: that was all. */
  list(query: LimitQuery): Promise<{ limits: Json[]; total: number; next: string | undefined }>
  get(id: string): Promise<Json | undefined>
  bucket(id: string, query: BucketQuery): Promise<BucketHandle | undefined>
  top(id: string, most: number): Promise<Json | undefined>
}

interface LimitsParts {
  /** Undefined: this process has no traffic. */
  readonly source: LimitSource | undefined
  readonly writer: Pick<Writer, 'write'>
  readonly log: StoreLog
  readonly baseUrl: () => string
}

/** What limits of the process have decided, and their buckets: for administrators, because keys tell who clients are. */
export class Limits {
  readonly #parts: LimitsParts

  constructor(parts: LimitsParts) {
    this.#parts = parts
  }

  /** One page of the limits that live. */
  async list(query: LimitQuery, { principal }: Call): Promise<Json> {
    const { limits, total, next } = await this.#source(principal).list(query)
    const uri = `${this.#parts.baseUrl()}/limits`
    const { limit, text, order } = query
    const following = new URLSearchParams({ before_id: next ?? '', limit: String(limit), order })
    if (text !== undefined) following.set('text', text)
    return { limits, total, uri, next_page_uri: next === undefined ? null : `${uri}?${following}` }
  }

  /** One limit, with the series of its last minutes. Fails with `NOT_FOUND`. */
  async get(id: string, { principal }: Call): Promise<Json> {
    return found(id, await this.#source(principal).get(id))
  }

  /** One bucket, also of a key that has none yet. Fails with `NOT_FOUND`. */
  async bucket(id: string, query: BucketQuery, { principal }: Call): Promise<Json> {
    return await found(id, await this.#source(principal).bucket(id, query)).show()
  }

  /**
   * Empties a bucket: the requests that it refuses are admitted again. Its event is kept before, so that it does not happen without a
   * trace. Answers what the bucket is then. Fails with `NOT_FOUND`, `BUCKET_SHARED`, or as a write does.
   */
  async reset(id: string, query: BucketQuery, call: Call): Promise<Json> {
    const bucket = found(id, await this.#source(call.principal).bucket(id, query))
    if (await bucket.shared()) {
      const message = 'the memory of the limiter is full, and what the bucket counts is shared with other keys'
      throw new ControlError(controlErrors.BUCKET_SHARED, message)
    }
    await this.#parts.writer.write(call, {}, (draft) =>
      draft.commanded(commandEventType('limit_bucket_reset'), bucket.about)
    )
    await bucket.empty()
    const { id: principal, subject } = call.principal
    this.#parts.log.info(
      { limit: id, bucket: bucket.name, principal, subject, operation_id: call.operationId },
      'a bucket of a limit was emptied'
    )
    return await bucket.show()
  }

  /** Who is refused most now. Fails with `NOT_FOUND` or `LIMIT_KEYS_OFF`. */
  async top(id: string, most: number, { principal }: Call): Promise<Json> {
    return found(id, await this.#source(principal).top(id, most))
  }

  #source(principal: Call['principal']): LimitSource {
    mustHave(principal, 'limits')
    const { source } = this.#parts
    if (source === undefined) throw new TypeError('a process without a data plane limits nothing')
    return source
  }
}

function found<T>(id: string, value: T | undefined): T {
  if (value === undefined) throw notFound(`limit ${id}`)
  return value
}
