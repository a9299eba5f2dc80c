import type { Expressions } from '../../expression/expression.js'
import type { Exchange } from '../../flow/exchange.js'
import { firewallResults } from '../../flow/firewall.js'
import { type Flow, flowSlot } from '../../flow/flow.js'
import type { Clock } from '../../lib/clock.js'
import { newId } from '../../lib/id.js'
import type { AdmittedFlow } from '../../proxy/admission.js'
import type { ExchangeObserver, Observers } from '../../proxy/observers.js'
import type { ExchangeRecord } from '../../telemetry/access-log.js'
import { isRefusedOrFailed } from '../../telemetry/reason.js'
import { ExplanationRecorder } from '../explain/explanation.js'
import type { ExchangeCondition } from './exchange-conditions.js'
import { ExchangeFile } from './exchange-file.js'
import { ExchangeRing } from './exchange-ring.js'
import { EXPLAIN_HEADER, ExplainKeys, type KnownExplainKey } from './explain-keys.js'
import type { ExchangeFollower, Following } from './followers.js'
import { keepFields, type Noted, recordedExchange, watched } from './noted-exchange.js'
import { type RecordedExchange, type ShadowedDecision, shownExchange } from './recorded-exchange.js'
import { type CompiledSettings, compiledSettings, type RecorderSettings } from './recorder-settings.js'
import type { FromThreadRecorder, RecordingThreads, RelayedExchange, ToThreadRecorder } from './recording-threads.js'

/** Dependencies of a recorder. */
export interface RecorderParts {
  readonly observers: Observers
  readonly clock: Clock
  readonly expressions: Expressions
  readonly settings: RecorderSettings
  readonly baseUrl: () => string
  readonly log: { warn(fields: object, message: string): void }
  /**
   * Receives exchanges in a worker that records for the main thread. `wanted`: record it even without followers. Must not
   * throw. @default this recorder keeps its exchanges
   */
  readonly relay?: (recorded: RecordedExchange, wanted: boolean, followers: readonly ExchangeFollower[]) => void
}

/** An exchange that repeats another one, with its callback. */
interface Repeating {
  readonly id: string
  readonly made: (recorded: RecordedExchange) => void
}

/** Maximum number of refusals and failures that are recorded in a second without a condition. */
const MAX_REFUSALS = 50
/** Maximum number of other exchanges that are recorded in a second without a condition. */
const MAX_SAMPLES = 5

const notes = flowSlot<Noted | 'passed-over'>('recorder')

/**
 * Records exchanges with all fields that policies can read, and their decisions. Traffic does not call it while nothing is
 * recorded, followed or explained.
 */
export class ExchangeRecorder {
  readonly ring: ExchangeRing
  readonly #parts: RecorderParts
  readonly #keys: ExplainKeys
  readonly #followers = new Map<number, { readonly follower: ExchangeFollower; readonly following: Following }>()
  #followed = 0
  #threads: RecordingThreads = { send: () => undefined, settle: () => Promise.resolve() }
  #settings: RecorderSettings
  #where: ExchangeCondition | undefined
  #explain: ((flow: Flow) => boolean) | undefined
  #file: ExchangeFile | undefined
  #attended = 0
  /** Refusals, failures and a sample are recorded, because no condition of the options selects exchanges. */
  #recordsUsual = false
  /** More than their ends is wanted of exchanges. */
  #isAsked = false
  #second = Number.NEGATIVE_INFINITY
  #refusalsLeft = 0
  #samplesLeft = 0
  /** Unsubscribes from the exchange observers; undefined if not subscribed. */
  #leave: (() => void) | undefined
  /** Repeated exchanges, by the simulated connection. */
  readonly #repeating = new Map<number, Repeating>()

  /** Throws a CodedError `RECORDER_CONDITION` or `RECORDER_FILE`. */
  constructor(parts: RecorderParts) {
    this.#parts = parts
    this.#keys = new ExplainKeys(parts.clock)
    this.ring = new ExchangeRing(parts.settings.memory)
    this.#settings = parts.settings
    this.#take(compiledSettings(parts.expressions, parts.settings))
  }

  /** Creates a key whose requests are explained. `lasting` is in milliseconds. Returns undefined if there are too many keys. */
  makeKey(lasting: number): ReturnType<ExplainKeys['make']> {
    const made = this.#keys.make(lasting)
    if (made !== undefined) this.#threads.send({ kind: 'explain-key', known: made.known })
    this.#look()
    return made
  }

  /** A key that another thread has made. */
  learnKey(known: KnownExplainKey): void {
    this.#keys.learn(known)
    this.#look()
  }

  /** These threads record, too. */
  joins(threads: RecordingThreads): void {
    this.#threads = threads
  }

  /** Resolves when the exchanges of other threads that have ended by now are here; a thread that is busy is not waited for for long. */
  async settle(): Promise<void> {
    await this.#threads.settle()
  }

  /** Yields the messages that initialize the recorder of a new worker. */
  *standing(): Generator<ToThreadRecorder> {
    for (const [follower, { following }] of this.#followers) yield { kind: 'follow', follower, following }
    for (const known of this.#keys.known()) yield { kind: 'explain-key', known }
  }

  /** Handles a message of a worker's recorder. */
  receive(message: FromThreadRecorder): void {
    if (message.kind === 'left-out') {
      this.#leftOut(message.counts)
      return
    }
    for (const exchange of message.exchanges) this.#takes(exchange)
    const { dropped } = message
    if (dropped === 0) return
    this.ring.dropped += dropped
    this.#leftOut(new Map([...this.#followers.keys()].map((follower) => [follower, dropped])))
  }

  #takes({ id, text, explained, wanted, followers }: RelayedExchange): void {
    const facts = { begun: true, hasExplanation: explained }
    const chosen = followers
      .flatMap((follower) => this.#followers.get(follower)?.follower ?? [])
      .filter(({ admits }) => admits(facts))
    if (!wanted && chosen.length === 0) return
    this.ring.addText(id, text)
    if (this.#file === undefined && chosen.length === 0) return
    const recorded = JSON.parse(text) as RecordedExchange
    this.#file?.write(shownExchange(recorded, this.#parts.baseUrl()))
    for (const follower of chosen) follower.take(recorded)
  }

  /** Reports left-out exchanges, by the number of the follower. */
  #leftOut(counts: ReadonlyMap<number, number>): void {
    for (const [follower, count] of counts) {
      const { leftOut } = this.#followers.get(follower)?.follower ?? {}
      for (let i = 0; leftOut !== undefined && i < count; i++) leftOut()
    }
  }

  /** Number of followers. */
  get followers(): number {
    return this.#followers.size
  }

  get settings(): RecorderSettings {
    return this.#settings
  }

  /**
   * Validates new settings, which apply once `use` is called; recorded exchanges are kept if they fit. Throws like the
   * constructor, without changes.
   */
  prepare(settings: RecorderSettings): { use(): void } {
    if (JSON.stringify(settings) === JSON.stringify(this.#settings)) return { use: () => undefined }
    const compiled = compiledSettings(this.#parts.expressions, settings)
    return {
      use: () => {
        this.#settings = settings
        this.#take(compiled)
        this.ring.resize(settings.memory)
      }
    }
  }

  /** Adds a follower with the settings `following`. Returns a function that removes it. */
  follow(follower: ExchangeFollower, following: Following): () => void {
    const number = ++this.#followed
    this.#followers.set(number, { follower, following })
    this.#threads.send({ kind: 'follow', follower: number, following })
    this.#look()
    return () => {
      if (this.#followers.delete(number)) this.#threads.send({ kind: 'unfollow', follower: number })
      this.#look()
    }
  }

  /** Marks the exchange on this connection as a repetition; `made` is called with its record. Returns a function that cancels it. */
  repeats(connection: number, id: string, made: Repeating['made']): () => void {
    this.#repeating.set(connection, { id, made })
    this.#look()
    return () => {
      this.#repeating.delete(connection)
      this.#look()
    }
  }

  /** Starts recording an admitted exchange. Returns the explainer if its decision is to be explained. */
  begins(exchange: Exchange, flow: AdmittedFlow): ReturnType<ExchangeObserver['begins']> {
    if (this.#recordsUsual) keepFields(flow)
    if (!this.#isAsked) return 'passed-over'
    const { request } = flow
    // Header lists are immutable: changed requests have new lists.
    const fields = request.headers.list
    const keyed = this.#isKeyed(flow)
    const repeats = this.#repeating.get(exchange.connection.id)?.id ?? null
    const followed = this.#wantedOf(flow)
    const explained = keyed || followed === 'explained' || repeats !== null || this.#explain?.(flow) === true
    if (
      !explained &&
      followed === 'passed-over' &&
      this.#where === undefined &&
      this.#attended === 0 &&
      !this.#keepsBodies
    ) {
      flow.set(notes, 'passed-over')
      return 'passed-over'
    }
    const explainer = explained ? new ExplanationRecorder({ reveal: false, imagined: false }) : undefined
    const id = keyed ? newId('exch', this.#parts.clock.wall()) : undefined
    const noted: Noted = {
      id,
      at: request.receivedAt,
      fields,
      explainer,
      repeats,
      hasBody: exchange.request.body.framing.kind !== 'none',
      answer: null,
      record: undefined,
      kept: undefined,
      shadow: null,
      requestBody: undefined,
      responseBody: undefined
    }
    flow.set(notes, noted)
    const { bodies } = this.#settings
    if (bodies > 0) noted.requestBody = watched(exchange.request.body, bodies)
    flow.onForwarded(() => {
      const { response } = flow
      if (response === undefined) return
      noted.answer = { status: response.status, headers: response.headers.list }
      if (bodies > 0) noted.responseBody = watched(response.body, bodies)
    })
    if (id !== undefined) flow.responseFields = [...(flow.responseFields ?? []), 'Sluice-Exchange', id]
    return explainer
  }

  /** Called for each exchange, also for one that was not admitted. */
  ended(record: ExchangeRecord): void {
    const noted = record.flow?.get(notes)
    if (noted === 'passed-over') {
      for (const { follower } of this.#followers.values()) if (follower.where === undefined) follower.leftOut()
      if (this.#isUsual(record)) this.#keep(this.#recorded(record, undefined), true, [])
      return
    }
    if (noted !== undefined) noted.record = record
    const always = (noted !== undefined && this.#mustBeKept(noted)) || this.#isUsual(record)
    if (!always && this.#where === undefined && this.#followers.size === 0) return
    const facts = { begun: noted !== undefined, hasExplanation: noted?.explainer !== undefined }
    // Followers of all exchanges first report whether they have capacity: an exchange that none accepts is not assembled.
    const all = [...this.#followers.values()].map(({ follower }) => follower)
    const asked = all.filter(({ where, admits }) => where !== undefined || admits(facts))
    if (!always && this.#where === undefined && asked.length === 0) return
    const recorded = this.#recorded(record, noted)
    const followers = asked.filter(({ where, admits }) => where === undefined || (where(recorded) && admits(facts)))
    const wanted = always || this.#where?.(recorded) === true
    if (!wanted && followers.length === 0) return
    if (noted !== undefined) noted.kept = recorded.id
    this.#keep(recorded, wanted, followers)
    this.#repeating.get(record.connection.id)?.made(recorded)
  }

  #keep(recorded: RecordedExchange, wanted: boolean, followers: readonly ExchangeFollower[]): void {
    const { relay, baseUrl } = this.#parts
    if (relay !== undefined) {
      relay(recorded, wanted, followers)
      return
    }
    this.ring.add(recorded)
    this.#file?.write(shownExchange(recorded, baseUrl()))
    for (const follower of followers) follower.take(recorded)
  }

  /** Observes exchanges for shadows. Returns a function that stops it. */
  attends(): () => void {
    this.#attended++
    this.#look()
    return () => {
      this.#attended--
      this.#look()
    }
  }

  /** Records an exchange on which a shadow decides otherwise, regardless of the recorder's settings. */
  shadowed(flow: Flow, shadow: ShadowedDecision): void {
    const noted = flow.get(notes)
    if (noted === undefined || noted === 'passed-over') return
    noted.shadow = shadow
    if (noted.record === undefined) return
    const recorded = this.#recorded(noted.record, noted)
    if (noted.kept === undefined) this.ring.add(recorded)
    else this.ring.replace(recorded)
    noted.kept = recorded.id
  }

  #recorded(record: ExchangeRecord, noted: Noted | undefined): RecordedExchange {
    return recordedExchange(record, noted, { now: this.#parts.clock.wall(), bodies: this.#settings.bodies })
  }

  /** Ends all followers, and writes the queued lines of the file. */
  async stop(): Promise<void> {
    const followers = [...this.#followers.values()]
    this.#followers.clear()
    for (const { follower } of followers) follower.over()
    await this.#file?.close()
    this.#file = undefined
  }

  /** Are exchanges without a condition recorded with their bodies? */
  get #keepsBodies(): boolean {
    return this.#recordsUsual && this.#settings.bodies > 0
  }

  /** Returns the highest level of detail that followers want of a new exchange. All are called, because their rates count. */
  #wantedOf(flow: AdmittedFlow): ReturnType<ExchangeFollower['begins']> {
    let most: ReturnType<ExchangeFollower['begins']> = 'passed-over'
    for (const { follower } of this.#followers.values()) {
      const own = follower.begins(flow)
      if (own === 'explained' || most === 'passed-over') most = own
    }
    return most
  }

  /** Must the exchange be kept even without followers? */
  #mustBeKept(noted: Noted): boolean {
    if (noted.repeats !== null || noted.id !== undefined || noted.shadow !== null) return true
    return noted.explainer !== undefined && this.#explain !== undefined
  }

  /**
   * Returns true if an exchange is recorded without a condition of the options: refusals, failures and those in which a rule of the firewall
   * matched, and a sample of the others, each up to a number in a second.
   */
  #isUsual(record: ExchangeRecord): boolean {
    if (!this.#recordsUsual) return false
    const second = Math.floor(this.#parts.clock.monotonic() / 1_000)
    if (second !== this.#second) {
      this.#second = second
      this.#refusalsLeft = MAX_REFUSALS
      this.#samplesLeft = MAX_SAMPLES
    }
    const isNoted = isRefusedOrFailed(record) || firewallResults(record.flow).length > 0
    return isNoted ? this.#refusalsLeft-- > 0 : this.#samplesLeft-- > 0
  }

  #isKeyed({ request }: AdmittedFlow): boolean {
    if (!this.#keys.some) {
      this.#look()
      return false
    }
    const given = request.headers.get(EXPLAIN_HEADER)
    if (given === undefined || !this.#keys.accepts(given)) return false
    request.headers.delete(EXPLAIN_HEADER)
    return true
  }

  /** Observes traffic while needed. */
  #look(): void {
    this.#isAsked =
      this.#where !== undefined ||
      this.#explain !== undefined ||
      this.#followers.size > 0 ||
      this.#keys.some ||
      this.#attended > 0 ||
      this.#repeating.size > 0 ||
      this.#keepsBodies
    if (this.#isAsked || this.#recordsUsual) this.#leave ??= this.#parts.observers.add(this)
    else {
      this.#leave?.()
      this.#leave = undefined
    }
  }

  #take({ where, explain, recordsUsual }: CompiledSettings): void {
    this.#where = where
    this.#recordsUsual = recordsUsual
    this.#explain = explain
    this.#look()
    const { file, fileBytes } = this.#settings
    if (this.#file?.path === file && this.#file?.most === fileBytes) return
    void this.#file?.close()
    const { log } = this.#parts
    const lost = (reason: string) => log.warn({ file, reason }, 'recorded exchanges were not written to their file')
    this.#file = file === undefined ? undefined : new ExchangeFile(file, fileBytes, lost)
  }
}
