import type { Clock } from '../lib/clock.js'

/** Number of open file descriptors and their limit. */
export interface DescriptorUse {
  readonly used: number
  readonly allowed: number
  /** True if connections may soon be refused, or already are. */
  readonly short: boolean
}

/** Inputs of the health reasons. Each is read every second and at each health request, so none may block. */
export interface HealthSources {
  /** Returns why the store is unusable; undefined if it works. */
  storeTrouble(): 'unreachable' | 'read_only' | 'full' | 'failing' | 'damaged' | 'gone' | undefined
  /** Returns true if the process serves its local copy of the configuration because the store was unreachable at start. */
  servesCopy(): boolean
  /** Returns the number of store revisions that are not applied yet. */
  revisionsBehind(): number
  /** Returns the part of the configuration that could not be applied, or null. */
  lastError(): string | null
  /** Returns why log lines are dropped; undefined if none are. */
  logDropping(): string | undefined
  /** Returns the number of certificates that are overdue for renewal. */
  overdueCertificates(): number
  /** Returns true if no DNS server responds. */
  dnsSilent(): boolean
  /** Returns the names of the listeners at their connection limit. */
  fullListeners(): ReadonlySet<string>
  /** Returns the number of missing workers. */
  workersMissing(): number
  /** Returns the descriptor use; undefined if the system does not report it. */
  descriptors(): DescriptorUse | undefined
}

/** Reason for a degraded process. */
interface Reason {
  /** Short word, visible without a key: reveals nothing about the configuration. */
  readonly name: string
  /** Text for operators in logs, metrics and the API description. */
  readonly means: string
  readonly holds: (sources: HealthSources) => boolean
  /** Numbers for the log line. */
  readonly about?: (sources: HealthSources) => object
  /** The source writes its own log line. */
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

/** All reasons in the order of display. A new reason is one entry here, with a new source above if necessary. */
export const reasons: readonly (Reason & { readonly name: ReasonName })[] = LIST

/** Dependencies of the health report. */
export interface HealthParts {
  readonly sources: HealthSources
  readonly clock: Clock
  readonly log: { info(fields: object, message: string): void; warn(fields: object, message: string): void }
}

/** Current reasons for a degraded process and their start times. Logs each change once. */
export class Health {
  readonly #parts: HealthParts
  /** Start times in monotonic milliseconds. */
  readonly #since = new Map<ReasonName, number>()

  constructor(parts: HealthParts) {
    this.#parts = parts
  }

  /** Checks every source; returns the names of the active reasons in the order of the list. */
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
