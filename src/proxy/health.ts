import type { ConnectionFacts, Failure } from '../flow/exchange.js'
import type { Clock } from '../lib/clock.js'
import type { HealthCheck } from '../runtime/plan.js'
import { type ClientTransport, DialError, forwardTo } from '../transport/contract.js'
import { AbortList } from '../transport/deadlines.js'
import { BodyBroken } from '../transport/message-body.js'
import { HEALTH_METHOD, healthOf, healthRequest } from './grpc-health.js'
import { InternalExchange } from './internal-exchange.js'
import { isIn, type Server } from './server.js'

/** Maximum delay of the first check, so that a process does not check all servers at once (ms). */
const FIRST_WITHIN = 1_000
/** Random variation of the interval, as a share of it. */
const SPREAD = 0.1

export interface HealthCheckParts {
  readonly clientTransport: Pick<ClientTransport, 'forward'>
  readonly clock: Clock
  /** Random number from 0 to below 1. @default `Math.random` */
  readonly random?: () => number
  /** Called with each decision of the checks, and with undefined when checks of a server stop. Must not throw. */
  readonly decided?: (check: string, found: Found | undefined) => void
}

/** Result of a check. */
export interface Found {
  readonly ok: boolean
  /** Text for people. */
  readonly reason: string
}

/** Active health checks of servers. */
export interface ServerChecks {
  /** Starts the checks of a server, if its unit has any. */
  begin(server: Server): void
  /** Stops the checks of a server. */
  end(server: Server): void
}

/** Returns the name of a check; servers with the same name have the same check. */
function checkOf(server: Server): string {
  return `${server.place} ${JSON.stringify(server.settings.health ?? null)}`
}

/** Results of another thread, for a thread without checks of its own. */
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

  /** Records a decision; undefined: the checks have stopped. */
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
 * Checks servers at the interval of their units, spread in time, until `end`. Uses the connections of traffic, so that the result applies
 * to requests.
 */
export class HealthChecks implements ServerChecks {
  readonly #parts: HealthCheckParts
  readonly #running = new Map<Server, Check>()

  constructor(parts: HealthCheckParts) {
    this.#parts = parts
  }

  /** Starts the checks of a server, if its unit has any. */
  begin(server: Server): void {
    const { health } = server.settings
    if (health !== undefined && !this.#running.has(server))
      this.#running.set(server, new Check(server, health, this.#parts))
  }

  /** Stops the checks of a server. */
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
    // An idle connection closed by the server proves nothing about its health.
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
        // The engine has the same timeout and may report it first.
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
  /** This process had no free descriptor, which proves nothing about the server. */
  readonly unasked?: boolean
}

function failedWith(failure: Failure, detail: string): Checked {
  return { ok: false, reason: `${failure}: ${detail}`, unasked: failure === 'no-descriptor' }
}

/** Connection facts of checks, which come from the process itself. */
const FACTS: ConnectionFacts = {
  id: 0,
  listener: '',
  local: { address: '', port: 0 },
  peer: { address: '', port: 0 },
  startedAt: 0,
  bytesIn: 0,
  bytesOut: 0
}
