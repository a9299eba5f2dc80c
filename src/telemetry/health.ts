import type { Clock } from '../lib/clock.js'

/** How many file descriptors the process has open, and how many it may have. */
export interface DescriptorUse {
  readonly used: number
  readonly allowed: number
  /** Are so few left that connections may soon be refused, or are some refused already? */
  readonly short: boolean
}

/** What the reasons are derived from. Each is asked every second and at each question for the health: none may take long. */
export interface HealthSources {
  /** What keeps the store from being used; undefined: nothing. */
  storeTrouble(): 'unreachable' | 'read_only' | 'full' | 'failing' | 'damaged' | 'gone' | undefined
  /** Does the process serve its own copy of the configuration, because the store was out of reach when it started? */
  servesCopy(): boolean
  /** How many revisions of the store are late here. */
  revisionsBehind(): number
  /** What of the configuration could not be applied, or null. */
  lastError(): string | null
  /** Why lines of the log are being dropped; undefined: none are. */
  logDropping(): string | undefined
  /** How many certificates should have been renewed by now. */
  overdueCertificates(): number
  /** Does no DNS server answer? */
  dnsSilent(): boolean
  /** Names of the listeners that have no place for another connection. */
  fullListeners(): ReadonlySet<string>
  /** How many threads that should carry traffic do not. */
  workersMissing(): number
  /** Undefined where the system does not show it. */
  descriptors(): DescriptorUse | undefined
}

/** A reason why the process serves, but not as it should. */
interface Reason {
  /** A short word, seen without a key: it says nothing about what is configured. */
  readonly name: string
  /** For the operator, in log, metrics and the description of the API. */
  readonly means: string
  readonly holds: (sources: HealthSources) => boolean
  /** Numbers that belong to it, for the log. */
  readonly about?: (sources: HealthSources) => object
  /** Its source logs it itself. */
  readonly logged?: true
}

const LIST = [
  {
    name: 'store_unreachable',
    means: 'the store does not answer: what was applied last serves, and writes are refused',
    holds: (of) => of.storeTrouble() === 'unreachable'
  },
  {
    name: 'store_read_only',
    means: 'the store takes no writes: it is read-only, or a standby has taken its place',
    holds: (of) => of.storeTrouble() === 'read_only'
  },
  {
    name: 'store_full',
    means: 'the disk of the store is full: writes are refused until there is room',
    holds: (of) => of.storeTrouble() === 'full'
  },
  {
    name: 'store_failing',
    means:
      'the disk of the store fails, or its file is damaged, deleted or replaced: reads and writes of the API are refused',
    holds: (of) => ['failing', 'damaged', 'gone'].includes(of.storeTrouble() ?? '')
  },
  {
    name: 'serving_copy',
    means:
      'the store was out of reach at the start: its last known configuration serves from a copy, and writes are refused',
    holds: (of) => of.servesCopy()
  },
  {
    name: 'revisions_behind',
    means: 'revisions of the store are not applied here within two seconds',
    holds: (of) => of.revisionsBehind() > 0,
    about: (of) => ({ revisions: of.revisionsBehind() })
  },
  {
    name: 'configuration_incomplete',
    means: 'something of the configuration could not be applied: last_error in /processes says what',
    holds: (of) => of.lastError() !== null && !of.servesCopy()
  },
  {
    name: 'log_dropping',
    means: 'lines of the log are dropped: its reader is too slow or its disk is full',
    holds: (of) => of.logDropping() !== undefined,
    logged: true
  },
  {
    name: 'certificate_overdue',
    means: 'a managed certificate is past its renewal time',
    holds: (of) => of.overdueCertificates() > 0,
    about: (of) => ({ certificates: of.overdueCertificates() })
  },
  {
    name: 'dns_unreachable',
    means: 'no DNS server answers: names are found only as long as their addresses are remembered',
    holds: (of) => of.dnsSilent()
  },
  {
    name: 'connections_used_up',
    means: 'connections used up: a listener has as many as limits.connections allows, and closes further ones',
    holds: (of) => of.fullListeners().size > 0,
    about: (of) => ({ listeners: [...of.fullListeners()] })
  },
  {
    name: 'workers_missing',
    means: 'fewer threads carry traffic than configured: one has ended or hangs, and is being replaced',
    holds: (of) => of.workersMissing() > 0,
    about: (of) => ({ workers: of.workersMissing() })
  },
  {
    name: 'descriptors_short',
    means:
      'few file descriptors are left, or clients have all of theirs: connections are refused; raise the limit (ulimit -n, LimitNOFILE)',
    holds: (of) => of.descriptors()?.short === true,
    about: (of) => ({ used: of.descriptors()?.used, allowed: of.descriptors()?.allowed })
  }
] as const satisfies readonly Reason[]

type ReasonName = (typeof LIST)[number]['name']

/** Every reason, in the order in which they are shown. A new one is one entry of this list, and a source above when it needs one. */
export const reasons: readonly (Reason & { readonly name: ReasonName })[] = LIST

/** What the health of a process is read from. */
export interface HealthParts {
  readonly sources: HealthSources
  readonly clock: Clock
  readonly log: { info(fields: object, message: string): void; warn(fields: object, message: string): void }
}

/** What is wrong in this process, and since when. Logs each change of it once. */
export class Health {
  readonly #parts: HealthParts
  /** Monotonic milliseconds. */
  readonly #since = new Map<ReasonName, number>()

  constructor(parts: HealthParts) {
    this.#parts = parts
  }

  /** Looks at every source; returns the names of the reasons that hold, in the order of their list. */
  look(): readonly ReasonName[] {
    const { sources, clock, log } = this.#parts
    const now = clock.monotonic()
    for (const { name, means, holds, about, logged } of reasons) {
      const since = this.#since.get(name)
      const held = since !== undefined
      if (holds(sources) === held) continue
      if (held) this.#since.delete(name)
      else this.#since.set(name, now)
      if (logged === true) continue
      if (held) log.info({ reason: name, seconds: Math.round((now - since) / 100) / 10 }, `no longer degraded: ${name}`)
      else log.warn({ reason: name, ...about?.(sources) }, `degraded: ${means}`)
    }
    return reasons.filter(({ name }) => this.#since.has(name)).map(({ name }) => name)
  }
}
