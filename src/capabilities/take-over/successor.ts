import { closeSync, readdirSync, readFileSync } from 'node:fs'
import { createServer, Socket } from 'node:net'
import type { Capability } from '../../app/capability.js'
import type { Host } from '../../app/foundation.js'
import type { CheckFile } from '../../cli/documents.js'
import type { SuccessorProcess } from '../../cli/process-hooks.js'
import { formatFinding, styleFor } from '../../cli/report.js'
import { clockFrom } from '../../lib/clock.js'
import { codeOf } from '../../lib/errors.js'
import { formatAuthority } from '../../lib/host.js'
import { InheritedSockets } from '../../lib/inherited-sockets.js'
import { systemReason } from '../../lib/system-errors.js'
import { opensListen } from '../../options/catalogue.js'
import type { Options } from '../../options/options.js'
import type { FromHolder, HandedTunnels } from '../workers/sockets/handed-tunnels.js'
import { type Admissions, type HandedProcess, PREDECESSOR } from './handed.js'
import { type FromSuccessor, INHERITANCE, type Inheritance, type ToSuccessor, writeLine } from './protocol.js'
import { type Rehearsed, rehearsed } from './rehearsal.js'
import { LIMIT_FORMS } from './succession.js'

/** Maximum response time of the predecessor, which then counts as hung (ms). */
const ANSWER = 20_000

/** The successor's side of a take-over. */
export class Successor implements SuccessorProcess {
  readonly sockets: InheritedSockets
  readonly #asker: Socket | undefined
  readonly #answers = new Map<ToSuccessor['kind'], ToSuccessor>()
  /** True if no more messages can arrive. */
  #gone = false
  /** The predecessor has ended. */
  #lost = false
  #look: () => void = () => undefined
  /** Messages that arrived before they could be used. */
  #admissions: Admissions[] = []
  #count: ((admissions: Admissions) => void) | undefined
  #connections: Socket[] = []
  #take: ((connection: Socket) => void) | undefined
  #ofTunnels: FromHolder[] = []
  #tunnels: Pick<HandedTunnels, 'receive' | 'lost'> | undefined
  #left: () => void = () => undefined
  readonly #ended = new Promise<void>((resolve) => {
    this.#left = resolve
  })

  private constructor({ sockets, asker }: Inheritance) {
    this.sockets = new InheritedSockets(sockets.map(([fd, host, port]) => [fd, { host, port }]))
    if (asker !== undefined) {
      this.#asker = new Socket({ fd: asker, readable: true, writable: true })
      this.#asker.on('error', () => undefined)
      // It must not keep a process that has ended.
      this.#asker.unref()
    }
    process.on('message', (message, handle) => this.#received(message as ToSuccessor, handle as Socket | undefined))
    // The predecessor may have ended before this was loaded.
    if (process.connected !== true) this.#lose()
    process.on('disconnect', () => this.#lose())
  }

  /** Returns the successor; undefined if this process is none. */
  static of(environment: NodeJS.ProcessEnv): Successor | undefined {
    const given = environment[INHERITANCE]
    delete environment[INHERITANCE]
    if (given === undefined) return undefined
    const inheritance = JSON.parse(given) as Inheritance
    closeStrays(inheritance)
    return new Successor(inheritance)
  }

  /**
   * Checks the files that the options name with `check`, and the ports that are not inherited. Returns the problems, as lines to print.
   */
  async problems(options: Options, environment: NodeJS.ProcessEnv, check: CheckFile): Promise<readonly string[]> {
    const style = styleFor(process.stderr, environment)
    const lines: string[] = []
    let named = 0
    for (const file of [options.policy, options.site_file]) {
      if (file === undefined) continue
      const { findings, listeners = [] } = await check(file, environment)
      named += listeners.length
      for (const finding of findings) {
        if (finding.problems.some(({ severity }) => severity === 'error')) lines.push(...formatFinding(finding, style))
      }
    }
    const places = [
      opensListen(options, named) ? options.listen : undefined,
      options.api.listen,
      ...options.listeners.map(({ listen }) => listen),
      options.agents
    ]
    for (const place of places) {
      if (place === undefined || this.sockets.has(place)) continue
      const reason = await unboundReason(place)
      if (reason !== undefined) lines.push(`${formatAuthority(place.host, place.port)} cannot be opened: ${reason}`)
    }
    return lines
  }

  /** Prints the reason of a failed start to the command that requested it. */
  explains(line: string): void {
    if (this.#asker === undefined) console.error(line)
    else writeLine(this.#asker, { kind: 'line', text: line })
  }

  async takesPlace(options: Options, host: Host, capabilities: readonly Capability[]): Promise<Partial<Host>> {
    const released = await this.#prepared(await rehearsed(options, host, capabilities))
    if (released === undefined) return {}
    const { clockOrigin, limiterSecret, ticketKeys } = released
    return {
      clock: clockFrom(clockOrigin),
      predecessor: {
        limiterSecret: Buffer.from(limiterSecret, 'base64'),
        ticketKeys: Buffer.from(ticketKeys, 'base64')
      },
      brings: (opened) => opened.put(PREDECESSOR, this.#handed(released))
    }
  }

  /**
   * Reports the rehearsal, then waits until the predecessor has released store and ports. Resolves with undefined if the predecessor has exited.
   */
  async #prepared(came: Rehearsed): Promise<Extract<ToSuccessor, { kind: 'released' }> | undefined> {
    this.#report({ kind: 'prepared', ...came })
    return (await this.#answer('released')) as Extract<ToSuccessor, { kind: 'released' }> | undefined
  }

  #handed({ endpoints }: Extract<ToSuccessor, { kind: 'released' }>): HandedProcess {
    return {
      endpoints,
      gone: this.#ended,
      tunnels: (follower) => {
        this.#tunnels = follower
        for (const message of this.#ofTunnels.splice(0)) follower.receive(message)
        if (this.#lost) follower.lost()
        return (message) => this.#report({ kind: 'to-tunnels', message })
      },
      limits: async () => {
        this.#report({ kind: 'opens' })
        const answer = (await this.#answer('limits')) as Extract<ToSuccessor, { kind: 'limits' }> | undefined
        return answer?.written && (await LIMIT_FORMS[answer.written.form](answer.written.path))
      },
      admitted: (count) => {
        this.#count = count
        for (const admissions of this.#admissions.splice(0)) count(admissions)
      }
    }
  }

  /** It serves, `take` also connections that the predecessor has accepted; resolves when that has left its place in the data folder. */
  async serves(take: (connection: Socket) => void): Promise<void> {
    this.sockets.closeUnused()
    this.#take = take
    for (const connection of this.#connections.splice(0)) take(connection)
    this.#report({ kind: 'serves' })
    await this.#answer('left')
    // The predecessor reports admissions until its end; the channel must not keep an ended process alive.
    process.channel?.unref()
  }

  /** The process ends with this code. */
  ends(code: number): void {
    if (this.#asker !== undefined) writeLine(this.#asker, { kind: 'ends', code })
  }

  #received(message: ToSuccessor, connection: Socket | undefined): void {
    if (message.kind === 'admitted') {
      if (this.#count === undefined) this.#admissions.push(message.admissions)
      else this.#count(message.admissions)
    } else if (message.kind === 'from-tunnels') {
      if (this.#tunnels === undefined) this.#ofTunnels.push(message.message)
      else this.#tunnels.receive(message.message)
    } else if (message.kind === 'connection') {
      // One that was closed on its way does not arrive.
      if (connection === undefined) return
      if (this.#take === undefined) this.#connections.push(connection)
      else this.#take(connection)
    } else {
      this.#answers.set(message.kind, message)
      this.#look()
    }
  }

  /** The predecessor has ended. */
  #lose(): void {
    this.#gone = true
    this.#lost = true
    this.#left()
    this.#tunnels?.lost()
    this.#look()
  }

  #report(message: FromSuccessor): void {
    if (process.connected) process.send?.(message, () => undefined)
  }

  /** Kills a hung predecessor; the closing channel shows that its resources are free. */
  #endMute(): void {
    const { ppid } = process
    this.explains(`take-over: process ${ppid} has not responded for ${ANSWER / 1_000} s; killing it`)
    try {
      // As long as the channel is open, the parent is the predecessor.
      if (process.connected && process.kill(ppid, 'SIGKILL')) return
    } catch (error) {
      this.explains(`take-over: it cannot be killed (${codeOf(error) ?? 'unknown'})`)
    }
    this.#gone = true
    this.#look()
  }

  #answer(kind: ToSuccessor['kind']): Promise<ToSuccessor | undefined> {
    return new Promise((resolve) => {
      const late = setTimeout(() => this.#endMute(), ANSWER)
      this.#look = () => {
        const answer = this.#answers.get(kind)
        if (answer === undefined && !this.#gone) return
        clearTimeout(late)
        resolve(answer)
      }
      this.#look()
    })
  }
}

/** Standard streams, and the channel to the predecessor. */
const OF_EACH_PROCESS = [0, 1, 2, 3]
/** Flag of a descriptor that is closed in child processes, octal (`O_CLOEXEC`). */
const CLOSED_IN_CHILDREN = 0o2000000

/**
 * Closes inherited connections of the predecessor's workers: Node duplicates the descriptor of a socket that is sent to a
 * worker without `O_CLOEXEC` (24.21). Otherwise their clients would not see the predecessor close them.
 */
function closeStrays({ sockets, asker = -1 }: Inheritance): void {
  const kept = new Set([...OF_EACH_PROCESS, asker, ...sockets.map(([fd]) => fd)])
  for (const name of readdirSync('/proc/self/fd')) {
    try {
      const [, flags = ''] = /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${name}`, 'utf8')) ?? []
      const inherited = (Number.parseInt(flags, 8) & CLOSED_IN_CHILDREN) === 0
      if (inherited && !kept.has(Number(name))) closeSync(Number(name))
    } catch {
      // The descriptor of the listing itself is closed.
    }
  }
}

/** Returns the reason why the address cannot be bound, or undefined if it can. */
function unboundReason({ host, port }: { readonly host: string; readonly port: number }): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', (error) => resolve(systemReason(codeOf(error) ?? '') ?? error.message))
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)))
  })
}
