import { isInternal } from '../flow/flow.js'
import { Backoff } from '../lib/concurrency.js'
import { codeOf } from '../lib/errors.js'
import type { HostPort, TcpEdgeUnit } from '../runtime/plan.js'
import { type PortProblem, portErrors } from '../runtime/ports.js'

/** One TCP edge in a change. */
export interface EdgeChange {
  readonly before: TcpEdgeUnit | undefined
  readonly after: TcpEdgeUnit | undefined
}

/** What a change means for the ports of TCP edges. */
interface EdgePortChanges {
  /** Edge's id → what it asks for after the change; nothing for one that is gone. */
  readonly asked: ReadonlyMap<string, readonly HostPort[]>
  /** Open ports that their edges do not ask for any more. */
  readonly gone: ReadonlySet<number>
  /** Keys of ports that are not open and no longer wanted. */
  readonly forgotten: readonly string[]
}

/** `open`: port → id of the edge that has it. */
export function edgePortChanges(
  changes: readonly EdgeChange[],
  open: ReadonlyMap<number, { readonly edge: string }>
): EdgePortChanges {
  const asked = new Map<string, readonly HostPort[]>()
  const gone = new Set<number>()
  const forgotten: string[] = []
  for (const { before, after } of changes) {
    if (after !== undefined) asked.set(after.id, openPorts(after))
    if (before === undefined) continue
    for (const at of openPorts(before)) {
      if (after !== undefined && openPorts(after).some(({ port }) => port === at.port)) continue
      if (open.get(at.port)?.edge === before.id) gone.add(at.port)
      else forgotten.push(edgePortKey(before.id, at))
    }
  }
  return { asked, gone, forgotten }
}

/** What a port is called that an edge asks for. */
export function edgePortKey(edge: string, { port }: HostPort): string {
  return `tcp_edge:${edge} ${port}`
}

/**
 * The ports that an edge opens: not those of internal names, which only policies lead to. Names of one edge may share a port,
 * because bytes do not show which name was meant.
 */
function openPorts(edge: TcpEdgeUnit): readonly HostPort[] {
  const ports = edge.ports.filter(({ host }) => !isInternal(host))
  return ports.filter(({ port }, index) => ports.findIndex((other) => other.port === port) === index)
}

/** A socket that is bound and not in service yet. Exactly one of the two is called. */
export interface BoundSocket {
  serve(): void
  drop(): void
}

/** A socket that the configuration asks for and that could not be bound. */
interface MissingPort {
  readonly problem: PortProblem
  /** Binds. Rejects with the system's error. */
  bind(): Promise<BoundSocket>
}

export interface MissingPortsLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

/** Pause before the first attempt, and the longest that doubling makes of it. Milliseconds. */
const PAUSES = { first: 500, longest: 30_000 }

/**
 * Tries again to open what could not be opened, with pauses that double, until it is open or no longer wanted.
 * While a change of ports is under way nothing is tried, so that no attempt takes a port which the change asks for.
 */
export class MissingPorts {
  readonly #log: MissingPortsLog
  readonly #missing = new Map<string, MissingPort>()
  readonly #backoff = new Backoff(PAUSES)
  #pause = PAUSES.first
  #timer: NodeJS.Timeout | undefined
  #attempt: Promise<void> | undefined
  /** Changes of ports under way. */
  #changes = 0
  #due = false
  #stopped = false

  constructor(log: MissingPortsLog) {
    this.#log = log
  }

  get problems(): readonly PortProblem[] {
    return [...this.#missing.values()].map(({ problem }) => problem)
  }

  has(key: string): boolean {
    return this.#missing.has(key)
  }

  set(key: string, missing: MissingPort): void {
    if (this.#stopped) return
    this.#missing.set(key, missing)
    this.#backoff.reset()
    this.#pause = this.#backoff.next()
    clearTimeout(this.#timer)
    this.#wait()
  }

  delete(key: string): void {
    this.#missing.delete(key)
  }

  /** A change of ports begins once an attempt that runs is over; `release` ends it. */
  async hold(): Promise<void> {
    this.#changes++
    await this.#attempt
  }

  release(): void {
    this.#changes--
    if (this.#due) this.#try()
  }

  /** Nothing is tried any more. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#missing.clear()
    clearTimeout(this.#timer)
    this.#timer = undefined
    await this.#attempt
  }

  #wait(): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#try()
    }, this.#pause).unref()
  }

  #try(): void {
    if (this.#attempt !== undefined) return
    this.#due = this.#changes > 0
    if (this.#due || this.#missing.size === 0) return
    this.#pause = this.#backoff.next()
    this.#attempt = this.#tryAll().finally(() => {
      this.#attempt = undefined
      if (this.#missing.size > 0 && this.#timer === undefined) this.#wait()
    })
  }

  async #tryAll(): Promise<void> {
    for (const [key, missing] of [...this.#missing]) await this.#tryOne(key, missing)
  }

  async #tryOne(key: string, missing: MissingPort): Promise<void> {
    const { unit, host, port } = missing.problem
    try {
      const bound = await missing.bind()
      if (this.#missing.get(key) !== missing) {
        bound.drop()
        return
      }
      this.#missing.delete(key)
      bound.serve()
      this.#log.info({ unit, host, port }, 'a port that could not be opened is open now')
    } catch (error) {
      const reason = codeOf(error) ?? portErrors.UNKNOWN.code
      this.#log.warn(
        { unit, host, port, reason, next_attempt_ms: this.#pause },
        'a port still cannot be opened; it is tried again'
      )
    }
  }
}
