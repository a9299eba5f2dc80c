import { execFile } from 'node:child_process'
import type { Logger } from 'pino'
import { startErrors } from '../app/errors.js'
import { Coalescer, Mutex } from '../lib/concurrency.js'
import { CodedError, codeOf } from '../lib/errors.js'
import { formatAuthority } from '../lib/host.js'
import { InheritedSockets } from '../lib/inherited-sockets.js'
import type { Options } from '../options/options.js'
import type { ListenAddress } from '../options/values.js'

type Environment = Readonly<Record<string, string | undefined>>

/** Standard input, output and error come first; sd_listen_fds(3). */
const FIRST = 3

/**
 * The sockets that a service manager hands over (`LISTEN_FDS`, `LISTEN_PID`, `LISTEN_FDNAMES`; sd_listen_fds(3)). Their names are
 * `listen`, `api.listen`, `agents`, or `host:port` of one of the listeners; a single socket without one of these names is that of
 * `listen`. Throws a CodedError `SOCKETS_UNKNOWN`.
 */
export function inheritedSockets(environment: Environment, pid: number, options: Options): InheritedSockets {
  const { LISTEN_FDS: count, LISTEN_PID: owner, LISTEN_FDNAMES: written = '' } = environment
  if (count === undefined || Number(owner) !== pid) return new InheritedSockets()
  const places = new Map<string, ListenAddress>([
    ...(options.listen.off === true ? [] : [['listen', options.listen] as [string, ListenAddress]]),
    ['api.listen', options.api.listen],
    ...options.listeners.map(({ listen }): [string, ListenAddress] => [
      formatAuthority(listen.host, listen.port),
      listen
    ])
  ])
  if (options.agents !== undefined) places.set('agents', options.agents)
  // host:port has a colon itself, which systemd writes as \x3a.
  const names = written === '' ? [] : written.split(':').map((name) => name.replaceAll('\\x3a', ':'))
  const sockets: [number, ListenAddress][] = []
  for (let index = 0; index < Number(count); index++) {
    const name = names[index] ?? ''
    const place = places.get(name) ?? (count === '1' ? places.get('listen') : undefined)
    if (place === undefined) {
      const message = `the service manager passed a socket named "${name}"; expected ${[...places.keys()].join(', ')}: correct FileDescriptorName= of its unit`
      throw new CodedError(startErrors.SOCKETS_UNKNOWN, message)
    }
    sockets.push([FIRST + index, place])
  }
  return new InheritedSockets(sockets)
}

/** Returns the environment with which a child process can notify the service manager of this process; empty if there is none. */
export function managedBy({ NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID }: Environment): Record<string, string> {
  if (!NOTIFY_SOCKET) return {}
  // Without WATCHDOG_PID: that of the child is not known before it runs.
  const isWatched = WATCHDOG_USEC !== undefined && Number(WATCHDOG_PID ?? process.pid) === process.pid
  return isWatched ? { NOTIFY_SOCKET, WATCHDOG_USEC } : { NOTIFY_SOCKET }
}

/** Maximum time of a notification (ms). */
const LONGEST = 5_000

/**
 * Notifies the service manager that started the process of its state (sd_notify(3)): with `systemd-notify`, because Node has no Unix datagram
 * sockets, one message after the other, and none after `succeeded` or `stopping`. Without `NOTIFY_SOCKET` nothing is sent. Never rejects.
 */
export class ServiceManager {
  #notifies: boolean
  /** Milliseconds between two signs of life; 0 if not requested, NaN if not a number. */
  readonly #every: number
  readonly #log: Pick<Logger, 'warn'>
  readonly #sending = new Mutex()
  readonly #signs = new Coalescer(() => this.#notify('WATCHDOG=1'))
  #failed = false

  constructor(environment: Environment, log: Pick<Logger, 'warn'>) {
    const { NOTIFY_SOCKET, WATCHDOG_USEC } = managedBy(environment)
    this.#log = log
    this.#notifies = NOTIFY_SOCKET !== undefined
    this.#every = Number(WATCHDOG_USEC ?? 0) / 2_000
  }

  /** Reports that the process serves. */
  ready(): Promise<void> {
    return this.#notify('READY=1', 'STATUS=serves')
  }

  /** It reads its configuration again; `ready` ends that. */
  reloading(): Promise<void> {
    // CLOCK_MONOTONIC in microseconds: by it the manager knows this reload from an earlier one.
    const now = process.hrtime.bigint() / 1_000n
    return this.#notify('RELOADING=1', `MONOTONIC_USEC=${now}`, 'STATUS=reloading the configuration')
  }

  /** Another process serves in the place of this one, which the manager watches from now on. */
  succeeded(pid: number): Promise<void> {
    return this.#notifyLast(`MAINPID=${pid}`, 'READY=1', 'STATUS=serves')
  }

  /** Reports that the process drains and then exits. */
  stopping(): Promise<void> {
    return this.#notifyLast('STOPPING=1', 'STATUS=draining open connections')
  }

  /** Signs of life from now on, twice as often as the manager wants them: a loop that is stuck gives none. */
  watch(): void {
    if (!(this.#every > 0)) return
    // The predecessor's last sign of life may be half an interval old.
    this.#signs.ask()
    setInterval(() => this.#signs.ask(), this.#every).unref()
  }

  /** Nothing follows: neither a sign of life, nor a reload that still runs and would report that the process serves. */
  #notifyLast(...states: readonly string[]): Promise<void> {
    const sent = this.#notify(...states)
    this.#notifies = false
    return sent
  }

  async #notify(...states: readonly string[]): Promise<void> {
    if (this.#notifies) await this.#sending.run(() => this.#send(states))
  }

  #send(states: readonly string[]): Promise<void> {
    return new Promise((resolve) => {
      execFile('systemd-notify', states, { timeout: LONGEST }, (error) => {
        if (error !== null && !this.#failed) {
          this.#failed = true
          const reason = codeOf(error) ?? error.message
          this.#log.warn({ reason }, 'the service manager cannot be notified: is systemd-notify installed?')
        }
        resolve()
      })
    })
  }
}
