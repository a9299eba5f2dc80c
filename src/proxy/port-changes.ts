import { isInternal } from '../flow/flow.js'
import { Backoff } from '../lib/concurrency.js'
import { codeOf } from '../lib/errors.js'
import { formatAuthority } from '../lib/host.js'
import type { HostPort, TcpEdgeUnit } from '../runtime/plan.js'
import { type PortProblem, portErrors } from '../runtime/ports.js'
import type { TcpEdges } from '../runtime/tcp-edges.js'

/** Change of one TCP edge. */
export interface EdgeChange {
  readonly before: TcpEdgeUnit | undefined
  readonly after: TcpEdgeUnit | undefined
}

/** Port that an edge needs. */
interface AskedPort {
  /** Edge id. */
  readonly edge: string
  readonly owner: string
  readonly at: HostPort
}

/** Effect of a change on the ports of TCP edges. */
interface EdgePortChanges {
  readonly asked: readonly AskedPort[]
  /** Open ports that are no longer used. */
  readonly gone: ReadonlySet<number>
  /** Keys of missing ports that are no longer wanted. */
  readonly forgotten: readonly string[]
  /** Ports of pools that lose a member and keep others. */
  readonly left: readonly Pick<AskedPort, 'owner' | 'at'>[]
}

/** Returns the port changes. `open`: port → its owner. `next`: the edges after the change. */
export function edgePortChanges(
  changes: readonly EdgeChange[],
  open: ReadonlyMap<number, { readonly owner: string }>,
  next: Pick<TcpEdges, 'sharing'>
): EdgePortChanges {
  const asked: AskedPort[] = []
  const gone = new Set<number>()
  const forgotten: string[] = []
  const left: Pick<AskedPort, 'owner' | 'at'>[] = []
  for (const { before, after } of changes) {
    const wanted = after === undefined ? [] : askedPorts(after)
    asked.push(...wanted)
    for (const { owner, at } of before === undefined ? [] : askedPorts(before)) {
      if (wanted.some((other) => other.at.port === at.port && other.owner === owner)) continue
      if (before?.pool !== undefined && next.sharing(at).length > 0) left.push({ owner, at })
      else if (open.get(at.port)?.owner === owner) gone.add(at.port)
      else forgotten.push(edgePortKey(owner, at))
    }
  }
  return { asked, gone, forgotten, left }
}

/** Returns the key of an owner's port. */
export function edgePortKey(owner: string, { port }: HostPort): string {
  return `tcp_edge:${owner} ${port}`
}

/** Begin of the owner of a port that several edges share; no id has a blank. */
const POOL = 'pool '

/** Returns true if several edges may own the port. */
export function isPool(owner: string): boolean {
  return owner.startsWith(POOL)
}

function askedPorts(edge: TcpEdgeUnit): AskedPort[] {
  return openPorts(edge).map((at) => {
    const owner = edge.pool === undefined ? edge.id : `${POOL}${formatAuthority(at.host, at.port)}`
    return { edge: edge.id, owner, at }
  })
}

/**
 * Returns the ports that an edge opens; not those of internal names, which only policies forward to. Names of one edge may share a port,
 * because the bytes do not show the name.
 */
function openPorts(edge: TcpEdgeUnit): readonly HostPort[] {
  const ports = edge.ports.filter(({ host }) => !isInternal(host))
  return ports.filter(({ port }, index) => ports.findIndex((other) => other.port === port) === index)
}

/** Bound socket that is not in service. Exactly one function must be called. */
export interface BoundSocket {
  serve(): void
  drop(): void
}

/** Configured socket that could not be bound. */
interface MissingPort {
  readonly problem: PortProblem
  /** Binds the socket. Rejects with the system's error. */
  bind(): Promise<BoundSocket>
}

export interface MissingPortsLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

/** First delay and maximum after doubling (ms). */
const PAUSES = { first: 500, longest: 30_000 }

/**
 * Retries ports that could not be opened, with doubling delays, until they are open or no longer wanted. Pauses during port changes, so
 * that no attempt takes a port that the change needs.
 */
export class MissingPorts {
  readonly #log: MissingPortsLog
  readonly #missing = new Map<string, MissingPort>()
  readonly #backoff = new Backoff(PAUSES)
  #pause = PAUSES.first
  #timer: NodeJS.Timeout | undefined
  #attempt: Promise<void> | undefined
  /** Number of running port changes. */
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

  /** Starts a port change after the current attempt; `release` ends it. */
  async hold(): Promise<void> {
    this.#changes++
    await this.#attempt
  }

  release(): void {
    this.#changes--
    if (this.#due) this.#try()
  }

  /** Stops all attempts. */
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
