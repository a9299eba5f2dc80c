import type { ConnectionFacts, Failure } from '../flow/exchange.js'
import type { Clock } from '../lib/clock.js'
import type { HealthCheck } from '../runtime/plan.js'
import { type ClientTransport, DialError, forwardTo } from '../transport/contract.js'
import { AbortList } from '../transport/deadlines.js'
import { BodyBroken } from '../transport/message-body.js'
import { HEALTH_METHOD, healthOf, healthRequest } from './grpc-health.js'
import { InternalExchange } from './internal-exchange.js'
import { isIn, type Server } from './server.js'

/** The first check comes within this time, so that a process does not ask all servers at once. Milliseconds. */
const FIRST_WITHIN = 1_000
/** By which part of the interval a check may come earlier or later than the one before. */
const SPREAD = 0.1

export interface HealthCheckParts {
  readonly clientTransport: Pick<ClientTransport, 'forward'>
  readonly clock: Clock
  /** From 0 to below 1; absent: `Math.random`. */
  readonly random?: () => number
  /** Called with what checks have decided, and with undefined when a server is checked no more. Must not throw. */
  readonly decided?: (check: string, found: Found | undefined) => void
}

/** What one check found. */
export interface Found {
  readonly ok: boolean
  /** For people. */
  readonly reason: string
}

/** Keeps checking servers. */
export interface ServerChecks {
  /** The server is checked from now on, if its unit wants that. */
  begin(server: Server): void
  /** It is checked no more. */
  end(server: Server): void
}

/** Names a check: servers of equal names are checked alike. */
function checkOf(server: Server): string {
  return `${server.place} ${JSON.stringify(server.settings.health ?? null)}`
}

/** In a thread that checks nothing: what another one has found. */
export class LearntChecks implements ServerChecks {
  readonly #found = new Map<string, Found>()
  readonly #servers = new Map<string, Set<Server>>()

  begin(server: Server): void {
    if (server.settings.health === undefined) return
    const check = checkOf(server)
    const servers = this.#servers.get(check) ?? new Set()
    this.#servers.set(check, servers.add(server))
    const found = this.#found.get(check)
    if (found !== undefined) server.decided(found.ok, found.reason)
  }

  end(server: Server): void {
    const check = checkOf(server)
    const servers = this.#servers.get(check)
    servers?.delete(server)
    if (servers?.size === 0) this.#servers.delete(check)
  }

  /** What checks have decided; undefined: nothing is checked any more. */
  learn(check: string, found: Found | undefined): void {
    if (found === undefined) {
      this.#found.delete(check)
      return
    }
    this.#found.set(check, found)
    for (const server of this.#servers.get(check) ?? []) server.decided(found.ok, found.reason)
  }
}

/**
 * Asks servers whether they work, each at the pace of its unit and spread in time. A check never outlives the unit: it ends with
 * `end`. Its connections are those of traffic, so that what it finds is what a request would.
 */
export class HealthChecks implements ServerChecks {
  readonly #parts: HealthCheckParts
  readonly #running = new Map<Server, Check>()

  constructor(parts: HealthCheckParts) {
    this.#parts = parts
  }

  /** Asks the server from now on, if its unit wants that. */
  begin(server: Server): void {
    const { health } = server.settings
    if (health !== undefined && !this.#running.has(server))
      this.#running.set(server, new Check(server, health, this.#parts))
  }

  /** Asks the server no more. */
  end(server: Server): void {
    this.#running.get(server)?.stop()
    if (this.#running.delete(server)) this.#parts.decided?.(checkOf(server), undefined)
  }

  stop(): void {
    for (const check of this.#running.values()) check.stop()
    this.#running.clear()
  }
}

class Check {
  readonly #server: Server
  readonly #settings: HealthCheck
  readonly #parts: HealthCheckParts
  #timer: NodeJS.Timeout
  #asking: AbortList | undefined
  #stopped = false

  constructor(server: Server, settings: HealthCheck, parts: HealthCheckParts) {
    this.#server = server
    this.#settings = settings
    this.#parts = parts
    this.#timer = this.#after(Math.min(FIRST_WITHIN, settings.interval) * this.#random())
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#timer)
    this.#asking?.abort('client-gone')
  }

  #random(): number {
    return (this.#parts.random ?? Math.random)()
  }

  #after(milliseconds: number): NodeJS.Timeout {
    return setTimeout(() => void this.#check(), milliseconds).unref()
  }

  async #check(): Promise<void> {
    const { ok, reason, unasked } = await this.#ask()
    if (this.#stopped) return
    const server = this.#server
    const before = server.found
    if (unasked !== true) server.checked(ok, reason)
    if (server.found !== before) this.#parts.decided?.(checkOf(server), { ok, reason })
    this.#timer = this.#after(this.#settings.interval * (1 + SPREAD * (2 * this.#random() - 1)))
  }

  /** Never rejects. */
  async #ask(): Promise<Checked> {
    const signal = new AbortList()
    this.#asking = signal
    const overdue = setTimeout(() => signal.abort('upstream-timeout'), this.#settings.timeout)
    try {
      const found = this.#settings.type === 'tcp' ? await this.#connects(signal) : await this.#answers(signal)
      return signal.aborted === 'upstream-timeout' ? this.#late() : found
    } finally {
      clearTimeout(overdue)
      this.#asking = undefined
    }
  }

  #late(): Found {
    return { ok: false, reason: `no answer within ${this.#settings.timeout} ms` }
  }

  async #connects(signal: AbortList): Promise<Checked> {
    const { dialer } = this.#server
    try {
      const pipe = await dialer.open({ client: FACTS, deadline: this.#settings.timeout, signal, bytes: true })
      pipe.destroy('client-gone')
      return { ok: true, reason: 'it takes connections' }
    } catch (error) {
      if (!(error instanceof DialError)) throw error
      return failedWith(error.failure, error.message)
    }
  }

  async #answers(signal: AbortList): Promise<Checked> {
    const first = await this.#request(signal)
    // An idle connection that its server has closed meanwhile says nothing of the server.
    const found = first === 'again' ? await this.#request(signal) : first
    return found === 'again' ? { ok: false, reason: 'it closes connections without an answer' } : found
  }

  async #request(signal: AbortList): Promise<Checked | 'again'> {
    const { clientTransport, clock } = this.#parts
    const { type, service, path, host, timeout, statuses } = this.#settings
    const { dialer, address, scheme } = this.#server
    const authority = host ?? address
    const grpc = type === 'grpc'
    const fields = grpc ? ['Content-Type', 'application/grpc', 'Grpc-Timeout', `${timeout}m`] : ['Accept', '*/*']
    const head = {
      method: grpc ? 'POST' : 'GET',
      target: grpc ? HEALTH_METHOD : path,
      authority,
      scheme,
      version: '1.1' as const,
      headers: ['Host', authority, 'User-Agent', 'Sluice-Health-Check', ...fields]
    }
    const exchange = new InternalExchange(FACTS, head, grpc ? healthRequest(service) : undefined, 0, clock)
    const stopListening = signal.onAbort(() => exchange.abort())
    try {
      const options = {
        head,
        body: exchange.request.body,
        connectTimeout: timeout,
        responseTimeout: timeout,
        idleTimeout: timeout
      }
      const answer = await forwardTo(clientTransport, exchange, dialer, options)
      if (answer.kind === 'failed') {
        if (answer.failure === 'upstream-gone' && answer.retry !== 'never') return 'again'
        // The engine keeps the same time, and may be the first to notice.
        if (answer.failure === 'upstream-timeout') return this.#late()
        return failedWith(answer.failure, answer.detail)
      }
      if (answer.kind === 'switched') {
        answer.pipe.destroy('client-gone')
        return { ok: false, reason: 'it switched protocols' }
      }
      if (grpc) return await healthOf(answer)
      const { status } = answer.head
      answer.body.discard()
      return { ok: isIn(statuses, status), reason: `status ${status}` }
    } catch (error) {
      if (!(error instanceof BodyBroken)) throw error
      return { ok: false, reason: 'its answer broke off' }
    } finally {
      stopListening()
    }
  }
}

interface Checked extends Found {
  /** This process had no descriptor for the connection, which says nothing of the server. */
  readonly unasked?: boolean
}

function failedWith(failure: Failure, detail: string): Checked {
  return { ok: false, reason: `${failure}: ${detail}`, unasked: failure === 'no-descriptor' }
}

/** A check comes from the process itself. */
const FACTS: ConnectionFacts = {
  id: 0,
  listener: '',
  local: { address: '', port: 0 },
  peer: { address: '', port: 0 },
  startedAt: 0,
  bytesIn: 0,
  bytesOut: 0
}
