import { setTimeout as sleep } from 'node:timers/promises'
import type { DataPlane } from '../../app/data-plane.js'
import type { Foundation } from '../../app/foundation.js'
import { partKey } from '../../app/opened-parts.js'
import type { StopFollowing } from '../../control/calls.js'
import { ControlError, controlErrors, notFound } from '../../control/errors.js'
import { refused } from '../../control/request-body.js'
import type { ConnectionFacts, RequestHead } from '../../flow/exchange.js'
import { HeaderFields } from '../../flow/headers.js'
import { packageVersion } from '../../lib/files.js'
import { Slices } from '../../lib/slices.js'
import type { Options } from '../../options/options.js'
import type { PolicyServices } from '../../policy/services.js'
import type { Traffic } from '../../proxy/data-plane.js'
import { InternalExchange } from '../../proxy/internal-exchange.js'
import { imaginedHead } from '../explain/imagined-exchange.js'
import type { OpenRunningLab } from '../explain/running-labs.js'
import type { Archive, Comparison, ExchangeView, RecorderState } from './answers.js'
import { Comparer, type Decide } from './comparer.js'
import { type PastExchange, pastOf, pastOfArchive } from './comparison.js'
import { type ExchangeCondition, exchangeFilter } from './exchange-conditions.js'
import { ExchangeRecorder } from './exchange-recorder.js'
import type { ComparisonRequest, ExchangeCriteria, ExchangeSource, FollowOptions, ReplayEdits } from './exchanges.js'
import { EXPLAIN_HEADER } from './explain-keys.js'
import { followerOf } from './followers.js'
import { harOf, readHar, readHarLines } from './har.js'
import {
  bytesOf,
  connectionOf,
  exchangeSummary,
  type RecordedExchange,
  shownExchange,
  urlOf
} from './recorded-exchange.js'
import { recorderSettings } from './recorder-settings.js'

/** The recorder of this process, for the API. */
export const EXCHANGE_SOURCE = partKey<ExchangeSource>('recorder')
/** Recorded or archived exchanges, and decisions about them, for other capabilities. */
export interface PastTraffic {
  /** Returns exchanges, oldest first. `archive`: an HTTP Archive instead of recorded ones. Fails with a ControlError. */
  find(request: Pick<ComparisonRequest, 'criteria' | 'limit' | 'archive'>): Promise<PastExchange[]>
  /** Decides exchanges by the running configuration with other policies, from the wall time `at` (ms) on. */
  decide(instead: ComparisonRequest['instead'], at: number): Promise<Decide>
}

/** Past traffic of this process. */
export const PAST_TRAFFIC = partKey<PastTraffic>('past traffic')
/** The recorder of this process, for traffic. */
export const RECORDER = partKey<ExchangeRecorder>('recorder of exchanges')

interface RecorderStage {
  readonly dataPlane: DataPlane
  readonly services: PolicyServices
  readonly labs: OpenRunningLab
}

/** Opens the recorder, which observes traffic from now on, and its API service. Throws the errors in its options. */
export function openRecorder(
  options: Options,
  { clock, log, publicUrl, observers, lifecycle, holder }: Foundation,
  { dataPlane, services, labs }: RecorderStage
): { readonly recorder: ExchangeRecorder; readonly source: ExchangeSource; readonly past: PastTraffic } {
  const { expressions } = services
  const settings = recorderSettings(options.recorder)
  const recorder = new ExchangeRecorder({ observers, clock, expressions, settings, baseUrl: publicUrl.read, log })
  lifecycle.opens('the recorder', { records: () => recorder.stop() })
  const replayer = new Replayer(recorder, dataPlane.traffic, clock)
  const policyText = (key: string) => {
    const unit = holder.current().plan.units.get(key)
    return unit?.kind === 'policy' ? unit.text : undefined
  }
  const policyKeys = () =>
    [...holder.current().plan.units].flatMap(([key, { kind }]) => (kind === 'policy' ? [key] : []))
  const comparer = new Comparer(labs, policyText, policyKeys)
  const source = new RecorderSource({ recorder, clock, expressions, baseUrl: publicUrl.read, replayer, comparer })
  const past: PastTraffic = {
    find: (request) => source.past(request),
    decide: (instead, at) => comparer.decide(instead, at, 'empty')
  }
  return { recorder, source, past }
}

interface SourceParts {
  readonly recorder: ExchangeRecorder
  readonly clock: Foundation['clock']
  readonly expressions: PolicyServices['expressions']
  readonly baseUrl: () => string
  readonly replayer: Replayer
  readonly comparer: Comparer
}

/** The recorder as the API sees it. */
class RecorderSource implements ExchangeSource {
  readonly #parts: SourceParts

  constructor(parts: SourceParts) {
    this.#parts = parts
  }

  state(): RecorderState {
    const { ring, settings, followers } = this.#parts.recorder
    return {
      exchanges: ring.count,
      bytes: ring.bytes,
      memory: ring.capacity,
      dropped: ring.dropped,
      followers,
      where: settings.where ?? null,
      explain: settings.explain ?? null,
      bodies: settings.bodies,
      file: settings.file ?? null
    }
  }

  async list(criteria: ExchangeCriteria, { limit, before }: { limit: number; before: string | undefined }) {
    const found = await this.#find(criteria, limit + 1, before)
    const shown = found.slice(0, limit)
    const baseUrl = this.#parts.baseUrl()
    return {
      exchanges: shown.map((recorded) => exchangeSummary(recorded, baseUrl)),
      next: found.length > limit ? shown.at(-1)?.id : undefined
    }
  }

  async get(id: string): Promise<ExchangeView | undefined> {
    const recorded = await this.#recorded(id)
    return recorded === undefined ? undefined : this.#shown(recorded)
  }

  async archive(criteria: ExchangeCriteria, limit: number): Promise<Archive> {
    const found = await this.#find(criteria, limit, undefined)
    return harOf(found.reverse(), this.#parts.baseUrl(), packageVersion())
  }

  clear(): void {
    this.#parts.recorder.ring.clear()
  }

  follow(criteria: ExchangeCriteria, options: FollowOptions): StopFollowing {
    const { explain, rate, take, leftOut, over } = options
    const { recorder, clock } = this.#parts
    const following = { query: criteria, explain, rate }
    const calls = { clock, leftOut, over, take: (recorded: RecordedExchange) => take(this.#shown(recorded)) }
    return recorder.follow(followerOf(following, this.#filter(criteria), calls), following)
  }

  makeKey(lasting: number) {
    const made = this.#parts.recorder.makeKey(lasting)
    return made === undefined ? undefined : { header: EXPLAIN_HEADER, key: made.key, endsAt: made.endsAt }
  }

  async replay(id: string, edits: ReplayEdits): Promise<ExchangeView> {
    const recorded = await this.#recorded(id)
    if (recorded === undefined) throw notFound(`exchange ${id}`)
    return this.#shown(await this.#parts.replayer.replay(recorded, edits))
  }

  async compare(request: ComparisonRequest): Promise<Comparison> {
    return await this.#parts.comparer.compare(await this.past(request), request)
  }

  /** See `PastTraffic`. */
  async past({ criteria, limit, archive }: Parameters<PastTraffic['find']>[0]): Promise<PastExchange[]> {
    if (archive !== undefined) return (await archived(archive)).slice(-limit)
    const found = await this.#find(criteria, limit, undefined)
    return found.map(pastOf).sort((a, b) => a.at - b.at)
  }

  async #recorded(id: string): Promise<RecordedExchange | undefined> {
    const { recorder } = this.#parts
    const there = recorder.ring.get(id)
    if (there !== undefined) return there
    await recorder.settle()
    return recorder.ring.get(id)
  }

  #shown(recorded: RecordedExchange): ExchangeView {
    return shownExchange(recorded, this.#parts.baseUrl())
  }

  /** The newest first. */
  async #find(criteria: ExchangeCriteria, limit: number, before: string | undefined): Promise<RecordedExchange[]> {
    const filter = this.#filter(criteria)
    await this.#parts.recorder.settle()
    const slices = new Slices()
    const found: RecordedExchange[] = []
    for (const recorded of this.#parts.recorder.ring.newest(before)) {
      if (filter(recorded)) found.push(recorded)
      if (found.length === limit) break
      if (slices.due) await slices.rest()
    }
    return found
  }

  #filter(criteria: ExchangeCriteria): ExchangeCondition {
    const compiled = exchangeFilter(this.#parts.expressions, criteria)
    if (compiled.ok) return compiled.filter
    const { field, message } = compiled
    throw new ControlError(controlErrors.QUERY_INVALID, `${field} ${message}`, { field })
  }
}

/** The exchanges of an archive: an HTTP Archive, or its entries as text, one in each line. Fails with `FIELD_INVALID`. */
async function archived(archive: unknown): Promise<PastExchange[]> {
  const slices = new Slices()
  const read = typeof archive === 'string' ? await readHarLines(archive, slices) : readHar(archive)
  if (!read.ok) throw refused('FIELD_INVALID', 'archive', read.message)
  return read.exchanges.map(pastOfArchive)
}

/** Maximum time to wait for the response to a repeated request (ms). */
const REPLAY_DEADLINE = 60_000
/** Maximum bytes of that response. */
const MOST_ANSWER = 16 * 1024 * 1024
/** Connections of repeated requests have numbers that no other has. */
let connections = -1_000_000_000

/** Repeats recorded requests as if their clients had sent them: they are counted, and upstreams respond. */
class Replayer {
  readonly #recorder: ExchangeRecorder
  readonly #traffic: Pick<Traffic, 'serve'>
  readonly #clock: Foundation['clock']

  constructor(recorder: ExchangeRecorder, traffic: Pick<Traffic, 'serve'>, clock: Foundation['clock']) {
    this.#recorder = recorder
    this.#traffic = traffic
    this.#clock = clock
  }

  /** The exchange that came of it. */
  async replay(recorded: RecordedExchange, edits: ReplayEdits): Promise<RecordedExchange> {
    const { entry } = recorded
    const connection = this.#connection(recorded)
    const body = edits.body ?? bodyOf(recorded)
    const head = editedHead(recorded, edits, body)
    const exchange = new InternalExchange(connection, head, body, MOST_ANSWER, this.#clock)
    let made: RecordedExchange | undefined
    const unfollow = this.#recorder.repeats(connection.id, recorded.id, (repeated) => {
      made = repeated
    })
    const ended = new AbortController()
    const deadline = sleep(REPLAY_DEADLINE, undefined, { signal: ended.signal }).then(
      () => exchange.abort(),
      () => undefined
    )
    try {
      await this.#traffic.serve(exchange, entry)
      await exchange.answer
    } finally {
      ended.abort()
      await deadline
      unfollow()
    }
    if (made === undefined)
      throw new ControlError(controlErrors.REPLAY_IMPOSSIBLE, 'the request is refused at its head')
    return made
  }

  #connection(recorded: RecordedExchange): ConnectionFacts {
    return { ...connectionOf(recorded), id: --connections, startedAt: this.#clock.wall(), bytesIn: 0, bytesOut: 0 }
  }
}

/** Returns the recorded body. Fails with `REPLAY_IMPOSSIBLE` if it is unknown. */
function bodyOf({ bodies, hasBody }: RecordedExchange): Uint8Array | undefined {
  const body = bytesOf(bodies.request)
  if (body !== undefined || !hasBody) return body
  const message = 'the body of the request was not recorded, or not all of it: give one'
  throw new ControlError(controlErrors.REPLAY_IMPOSSIBLE, message, { field: 'body' })
}

/** Fields that the transport makes. */
const MADE = ['content-length', 'transfer-encoding']

function editedHead(recorded: RecordedExchange, edits: ReplayEdits, body: Uint8Array | undefined): RequestHead {
  const { request } = recorded
  if (new HeaderFields(request.headers).has('upgrade'))
    throw new ControlError(
      controlErrors.REPLAY_IMPOSSIBLE,
      'a request for a WebSocket or another protocol is not sent again'
    )
  const fields = new HeaderFields(request.headers)
  for (const name of [...MADE, ...edits.headers.keys()]) fields.delete(name)
  for (const [name, values] of edits.headers) for (const value of values ?? []) fields.append(name, value)
  const { method = request.method, url } = edits
  if (url === undefined && edits.headers.size === 0 && body === undefined)
    return { ...request, method, headers: fields.list }
  if (url !== undefined) fields.delete('host')
  const imagined = {
    method,
    url: url ?? new URL(urlOf(recorded)),
    headers: fields.list,
    version: request.version,
    clientAddress: '',
    clientPort: 0
  }
  return imaginedHead(body === undefined ? imagined : { ...imagined, body })
}
