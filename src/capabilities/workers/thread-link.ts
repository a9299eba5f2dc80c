import { type Logger, pino } from 'pino'
import type { SessionAnswer } from '../../features/login/session-keeper.js'
import type { Lookup } from '../../lib/names/lookups.js'
import { Relay } from '../../lib/relay.js'
import { memoryOf, type TracedExchange } from '../traces/traced-exchange.js'
import type { FromTrafficThread, TakenKind, ThreadAnswer, ThreadQuestion, ToTrafficThread } from './thread-protocol.js'

/** Bytes of log lines, and of events, that may be on their way. */
const MOST_UNDER_WAY = 8 * 1024 * 1024
/** Memory of one beside its text, and of a look-up. Bytes. */
const OVERHEAD = 48
/** Memory of one DNS lookup (bytes). */
const LOOKUP = 128

type Answer = Extract<ToTrafficThread, { kind: 'answer' }>
type WrittenEvent = readonly [destination: string, event: string]

/** A worker's messages beside connections and the plan: log, events, DNS lookups. */
export class ThreadLink {
  readonly post: (message: FromTrafficThread) => void
  readonly log: Logger
  readonly #lines: Relay<string>
  readonly #events: Relay<WrittenEvent>
  readonly #access: Relay<string>
  readonly #traces: Relay<TracedExchange>
  readonly #lookups: Relay<Lookup>
  readonly #asked = new Map<number, (answer: Answer) => void>()
  #serial = 0

  /** `level`: of the log. */
  constructor(post: (message: FromTrafficThread) => void, level: string) {
    this.post = post
    this.#lines = new Relay({
      most: MOST_UNDER_WAY,
      sizeOf: (line) => line.length + OVERHEAD,
      post: (lines, bytes, dropped) => post({ kind: 'lines', text: lines.join(''), bytes, dropped })
    })
    this.#events = new Relay({
      most: MOST_UNDER_WAY,
      sizeOf: ([, event]) => event.length + OVERHEAD,
      post: (events, bytes, dropped) => post({ kind: 'events', events, bytes, dropped })
    })
    this.#access = new Relay({
      most: MOST_UNDER_WAY,
      sizeOf: (line) => line.length + OVERHEAD,
      post: (lines, bytes, dropped) => post({ kind: 'access', lines, bytes, dropped })
    })
    this.#traces = new Relay({
      most: MOST_UNDER_WAY,
      sizeOf: memoryOf,
      post: (traced, bytes, dropped) => post({ kind: 'traces', traced, bytes, dropped })
    })
    // Lookups are only counted, and not beyond the limit.
    const lookups: Relay<Lookup> = new Relay({
      most: MOST_UNDER_WAY,
      sizeOf: () => LOOKUP,
      post(list, bytes) {
        lookups.taken(bytes)
        post({ kind: 'looked', lookups: list })
      }
    })
    this.#lookups = lookups
    this.log = pino({ level, base: null }, { write: (line: string) => this.#lines.put(line) })
  }

  readonly event = (destination: string, event: string): void => this.#events.put([destination, event])

  /** A line of the access log. */
  readonly access = (line: string): void => this.#access.put(line)

  /** Relays the data of a sampled exchange. */
  readonly traced = (traced: TracedExchange): void => this.#traces.put(traced, 1 + traced.tries.length)

  readonly looked = (lookup: Lookup): void => this.#lookups.put(lookup)

  /** Asks the main thread. Rejects with its error. */
  async ask(question: Extract<ThreadQuestion, { about: 'login-session' }>): Promise<SessionAnswer>
  async ask(question: Exclude<ThreadQuestion, { about: 'login-session' }>): Promise<boolean>
  async ask(question: ThreadQuestion): Promise<ThreadAnswer> {
    const serial = ++this.#serial
    const answer = new Promise<Answer>((resolve) => this.#asked.set(serial, resolve))
    this.post({ kind: 'ask', serial, question })
    const { value, failed } = await answer
    if (failed !== undefined) throw new Error(failed)
    return value
  }

  answered(answer: Answer): void {
    this.#asked.get(answer.serial)?.(answer)
    this.#asked.delete(answer.serial)
  }

  /** Records bytes acknowledged by the main thread. */
  taken(what: Exclude<TakenKind, 'exchanges'>, bytes: number): void {
    if (what === 'lines') this.#lines.taken(bytes)
    else if (what === 'access') this.#access.taken(bytes)
    else if (what === 'traces') this.#traces.taken(bytes)
    else this.#events.taken(bytes)
  }

  /** Sends batched messages. */
  flush(): void {
    this.#lines.flush()
    this.#events.flush()
    this.#access.flush()
    this.#traces.flush()
    this.#lookups.flush()
  }
}
