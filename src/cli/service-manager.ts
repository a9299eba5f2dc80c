import { execFile } from 'node:child_process'
import type { Logger } from 'pino'
import { startErrors } from '../app/errors.js'
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
  const names = written === '' ? [] : written.split(':')
  // host:port has a colon itself, which systemd writes as \x3a.
  const plain = names.map((name) => name.replaceAll('\\x3a', ':'))
  const sockets: [number, ListenAddress][] = []
  for (let index = 0; index < Number(count); index++) {
    const name = plain[index] ?? ''
    const place = places.get(name) ?? (count === '1' ? places.get('listen') : undefined)
    if (place === undefined) {
      const message = `the service manager passed a socket named "${name}"; expected ${[...places.keys()].join(', ')}: correct FileDescriptorName= of its unit`
      throw new CodedError(startErrors.SOCKETS_UNKNOWN, message)
    }
    sockets.push([FIRST + index, place])
  }
  return new InheritedSockets(sockets)
}

/** Returns the environment with which a process started by `pid` can notify the service manager of `pid`; empty if there is none. */
export function managedBy(
  { NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID }: Environment,
  pid: number
): Record<string, string> {
  if ((NOTIFY_SOCKET ?? '') === '') return {}
  const socket = { NOTIFY_SOCKET: NOTIFY_SOCKET as string }
  const watched = WATCHDOG_PID === undefined || Number(WATCHDOG_PID) === pid
  // Without WATCHDOG_PID: that of the new process is not known before it runs.
  return watched && WATCHDOG_USEC !== undefined ? { ...socket, WATCHDOG_USEC } : socket
}

/** Maximum time of a notification to the service manager (ms). */
const LONGEST = 5_000

/**
 * Notifies the service manager that started the process of its state, as in sd_notify(3). Node has no Unix datagram sockets,
 * so `systemd-notify` sends the message. Without `NOTIFY_SOCKET` nothing is sent.
 */
export class ServiceManager {
  readonly #notifies: boolean
  /** Milliseconds between two signs of life; undefined if not requested. */
  readonly #every: number | undefined
  readonly #log: Pick<Logger, 'warn'>
  #timer: NodeJS.Timeout | undefined
  #failed = false

  constructor(
    { NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID }: Environment,
    log: Pick<Logger, 'warn'>,
    pid = process.pid
  ) {
    this.#log = log
    this.#notifies = (NOTIFY_SOCKET ?? '') !== ''
    const mine = WATCHDOG_PID === undefined || Number(WATCHDOG_PID) === pid
    const wanted = Number(WATCHDOG_USEC ?? 0) / 1_000
    this.#every = this.#notifies && mine && wanted > 0 ? wanted / 2 : undefined
  }

  /** Reports that the process serves. Never rejects, like the other methods. */
  async ready(): Promise<void> {
    await this.#notify('READY=1', 'STATUS=serves')
  }

  /** It reads its configuration again; `ready` ends that. */
  async reloading(): Promise<void> {
    // CLOCK_MONOTONIC in microseconds: by it the manager knows this reload from an earlier one.
    const now = process.hrtime.bigint() / 1_000n
    await this.#notify('RELOADING=1', `MONOTONIC_USEC=${now}`, 'STATUS=reloading the configuration')
  }

  /** Another process serves in the place of this one, which the manager watches from now on. */
  async succeeded(pid: number): Promise<void> {
    clearInterval(this.#timer)
    await this.#notify(`MAINPID=${pid}`, 'READY=1', 'STATUS=serves')
  }

  /** Reports that the process drains and then exits. */
  async stopping(): Promise<void> {
    clearInterval(this.#timer)
    await this.#notify('STOPPING=1', 'STATUS=draining open connections')
  }

  /** Signs of life from now on, twice as often as the manager wants them: a loop that is stuck gives none. */
  watch(): void {
    if (this.#every === undefined) return
    // The predecessor's last sign of life may be half an interval old.
    void this.#notify('WATCHDOG=1')
    this.#timer = setInterval(() => void this.#notify('WATCHDOG=1'), this.#every)
    this.#timer.unref()
  }

  #notify(...states: readonly string[]): Promise<void> {
    if (!this.#notifies) return Promise.resolve()
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
