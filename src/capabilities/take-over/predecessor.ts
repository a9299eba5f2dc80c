import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { chmod, rm } from 'node:fs/promises'
import { createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Running } from '../../app/app.js'
import { managedBy } from '../../cli/service-manager.js'
import { codeOf } from '../../lib/errors.js'
import { SCHEMA_VERSION } from '../../store/migrations.js'
import type { Admissions } from './handed.js'
import { listeningSockets } from './listening-sockets.js'
import {
  type FromSuccessor,
  INHERITANCE,
  type Inheritance,
  readLines,
  type TakeOverRequest,
  type ToAsker,
  type ToSuccessor,
  takeOverPlace,
  writeLine
} from './protocol.js'
import type { Succession } from './succession.js'

/** Maximum time of each step of a successor (ms). */
const STEP = 60_000
/** Maximum time for a command to send its request (ms). */
const ASKING = 5_000
/** Maximum bytes of a command's request, including its environment. */
const MOST = 1024 * 1024
/** Pauses between attempts to start the own command again. Milliseconds. */
const PAUSES = [0, 1_000, 2_000, 5_000, 15_000, 30_000] as const
/** First descriptor of a child behind its standard streams and its channel. */
const FIRST = 4

/**
 * Variables that belong to one process and not to its successor. The service manager is the one of this process, of which
 * the successor is a part, and not the one of the command that asks.
 */
const OF_ONE_PROCESS =
  /^(?:LISTEN_(?:FDS|PID|FDNAMES)|NOTIFY_SOCKET|WATCHDOG_(?:USEC|PID)|NODE_CHANNEL_(?:FD|SERIALIZATION_MODE)|SLUICE_SUCCESSOR)$/

interface PredecessorParts {
  readonly folder: string
  readonly log: Logger
  readonly running: Pick<Running, 'lastError'> & Succession
  /** Called before the process lets go of its configuration, and when it has it again. */
  readonly releasing: () => Promise<void>
  readonly tookBack: () => Promise<void>
  /** The words with which this process was started. */
  readonly own: Pick<TakeOverRequest, 'program' | 'words' | 'folder'>
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** Reason for which a successor failed to start. */
class Failed extends Error {}

/**
 * Hands over to a successor process on request: `sluice start --take-over` connects to a unix socket in the data folder.
 *
 * This process starts its successor, which inherits the listening sockets: both share one queue of the kernel, so that no
 * connection is refused or reset when either exits. The successor first checks the options and a copy of the store; only
 * then are store and API released, while traffic continues here. When the successor serves, this process stops accepting and
 * drains. If the successor exits first, this process takes store and API back. If that fails, it restarts its own command in
 * the same way, and carries traffic until that serves.
 */
export class Predecessor {
  readonly #parts: PredecessorParts
  readonly #server: Server
  readonly #succeeded: Promise<number>
  #succeed: (pid: number) => void = () => undefined
  #busy = false
  #released = false
  #closed = false
  #child: ChildProcess | undefined

  private constructor(parts: PredecessorParts) {
    this.#parts = parts
    this.#succeeded = new Promise((resolve) => {
      this.#succeed = resolve
    })
    this.#server = createServer((socket) => this.#asked(socket))
    this.#server.maxConnections = 4
  }

  /** Lets processes ask from now on. When the socket cannot be made, that is logged, and none can ask. */
  static async open(parts: PredecessorParts): Promise<Predecessor> {
    const predecessor = new Predecessor(parts)
    const server = predecessor.#server
    try {
      const { path, close } = takeOverPlace(parts.folder)
      server.once('close', close)
      // That of a process which was killed. Only one process has the folder.
      await rm(path, { force: true })
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject)
        server.listen(path, resolve)
      })
      await chmod(path, 0o600)
      server.on('error', (error) => parts.log.warn({ code: codeOf(error) }, 'a take-over request failed'))
    } catch (error) {
      parts.log.warn({ code: codeOf(error) }, 'sluice start --take-over cannot reach this process')
    }
    return predecessor
  }

  /** Resolves with the process that serves in the place of this one. */
  next(): Promise<number> {
    return this.#succeeded
  }

  /** No process takes over any more; a successor that does not serve yet is ended. */
  close(): void {
    this.#closed = true
    this.#server.close()
    this.#child?.kill('SIGKILL')
  }

  #asked(socket: Socket): void {
    socket.on('error', () => undefined)
    const late = setTimeout(() => socket.destroy(), ASKING)
    readLines<TakeOverRequest>(socket, MOST, (request) => {
      clearTimeout(late)
      if (this.#busy || this.#closed) {
        const text = 'the running process is already being replaced or is stopping'
        writeLine(socket, { kind: 'failed', text })
        socket.end()
        return
      }
      this.#busy = true
      this.#give(request, socket).catch((error: unknown) => this.#parts.log.error({ err: error }, 'a take-over failed'))
    })
  }

  async #give(request: TakeOverRequest, socket: Socket): Promise<void> {
    const { log } = this.#parts
    const report = (message: ToAsker) => writeLine(socket, message)
    try {
      const pid = await this.#succession({ ...request, socket }, report)
      // From now on the successor prints its own messages.
      socket.destroy()
      this.#succeed(pid)
    } catch (error) {
      const message = this.#reasonOf(error)
      log.error({ reason: message }, 'take-over failed')
      await this.#takeBack()
      const goesOn = this.#released
        ? 'the old process handles traffic and starts its command again'
        : 'the old process keeps running, nothing has changed'
      report({ kind: 'failed', text: `${message}; ${goesOn}` })
      socket.end()
      if (this.#released) await this.#again()
      else this.#busy = false
    }
  }

  /** Restores this process, if possible. */
  async #takeBack(): Promise<void> {
    if (!this.#released || this.#closed) return
    const { running, tookBack, log } = this.#parts
    try {
      await running.handingOver.takeBack()
      this.#released = false
      await tookBack()
      log.info('take-over cancelled: this process resumed ownership of store and API')
    } catch (error) {
      log.error({ err: error }, 'cannot resume ownership of store and API')
    }
  }

  /** Returns the reason of a failed take-over. An unexpected error must not block the next attempt. */
  #reasonOf(error: unknown): string {
    if (error instanceof Failed) return error.message
    this.#parts.log.error({ err: error }, 'a take-over failed')
    return `the new process cannot be started (${codeOf(error) ?? 'see the log of the running process'})`
  }

  /** Restarts the own command when store and API could not be taken back. */
  async #again(): Promise<void> {
    const { own, environment, log } = this.#parts
    const mine = Object.fromEntries(
      Object.entries(environment).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))
    )
    for (let attempt = 0; !this.#closed; attempt++) {
      await new Promise((resolve) => setTimeout(resolve, PAUSES[Math.min(attempt, PAUSES.length - 1)]))
      if (this.#closed) return
      try {
        this.#succeed(await this.#succession({ ...own, environment: mine }, () => undefined))
        return
      } catch (error) {
        log.error(
          { reason: this.#reasonOf(error), attempt: attempt + 1 },
          'cannot start a process that owns store and API; this one handles traffic and retries'
        )
      }
    }
  }

  async #succession(
    request: Omit<TakeOverRequest, 'pid'> & { readonly pid?: number; readonly socket?: Socket },
    report: (message: ToAsker) => void
  ): Promise<number> {
    const { running, releasing, folder, log } = this.#parts
    const { handingOver } = running
    const sockets = listeningSockets()
    if (sockets === undefined) throw new Failed('--take-over works only on Linux')
    const child = this.#spawn(request, sockets)
    this.#child = child
    const said = stepsOf(child)
    const send = (message: ToSuccessor) => child.connected && child.send(message, () => undefined)
    const limits = join(folder, 'take-over.limits')
    try {
      const pid = await said.begun
      report({ kind: 'begun', pid })
      report({ kind: 'step', text: `process ${pid} reads its options and checks them` })
      const { schema, incomplete } = await said.step('prepared')
      if (incomplete !== null && running.lastError() === null) {
        throw new Failed(`the new process cannot apply what the store holds: ${incomplete}`)
      }
      report({ kind: 'step', text: 'handing over store, API and agents; traffic continues' })
      if (!this.#released) {
        await releasing()
        this.#released = true
        await handingOver.release(schema > SCHEMA_VERSION)
      }
      const { ticketKeys, limiterSecret, clockOrigin, endpoints, handTunnels, writeLimits } = running.state()
      send({ kind: 'released', clockOrigin, limiterSecret, ticketKeys, endpoints })
      const tunnels = handTunnels((message) => send({ kind: 'from-tunnels', message }))
      child.once('disconnect', () => tunnels.close())
      const toTunnels = (message: unknown) => {
        const said = message as FromSuccessor
        if (said.kind === 'to-tunnels') tunnels.receive(said.message)
      }
      child.on('message', toTunnels)
      await said.step('opens')
      const admitted = (admissions: Admissions) => send({ kind: 'admitted', admissions })
      const written = await writeLimits(limits, admitted).catch((error: unknown) => {
        log.error({ err: error }, 'rate-limit counters cannot be handed over; they start empty')
        return undefined
      })
      child.once('disconnect', () => written?.end())
      send({ kind: 'limits', ...(written === undefined ? {} : { written: { path: limits, form: written.form } }) })
      await said.step('serves')
      await handingOver.give((connection) => {
        child.send({ kind: 'connection' } satisfies ToSuccessor, connection, () => undefined)
      })
      this.#server.close()
      send({ kind: 'left' })
      report({ kind: 'serves' })
      // Node's own listeners there handle acknowledgements of sent connections.
      for (const event of ['message', 'exit', 'error']) child.removeAllListeners(event)
      child.on('error', () => undefined)
      child.on('message', toTunnels)
      child.unref()
      child.channel?.unref()
      this.#child = undefined
      return pid
    } catch (error) {
      await endOf(child)
      this.#child = undefined
      await rm(limits, { force: true })
      throw error
    }
  }

  #spawn(
    {
      program,
      words,
      folder,
      environment,
      pid,
      socket
    }: Omit<TakeOverRequest, 'pid'> & { readonly pid?: number; readonly socket?: Socket },
    sockets: NonNullable<ReturnType<typeof listeningSockets>>
  ): ChildProcess {
    const { environment: managed } = this.#parts
    const own = [1, 2].map((fd) => outputOf(pid, fd))
    if (pid !== undefined && own.includes(undefined)) {
      const text =
        'its log goes to the output of the old process: the output of this command is a socket, which cannot be shared'
      if (socket !== undefined) writeLine(socket, { kind: 'step', text })
    }
    const inheritance: Inheritance = {
      sockets: sockets.map(({ host, port }, index) => [FIRST + index, host, port]),
      ...(socket === undefined ? {} : { asker: FIRST + sockets.length })
    }
    try {
      const kept = Object.entries(environment).filter(([name]) => !OF_ONE_PROCESS.test(name))
      return spawn(program, [...words], {
        cwd: folder,
        env: {
          ...Object.fromEntries(kept),
          ...managedBy(managed),
          [INHERITANCE]: JSON.stringify(inheritance)
        },
        serialization: 'advanced',
        // A separate process group: Ctrl-C at this terminal must not stop the child.
        detached: true,
        stdio: [
          'ignore',
          own[0] ?? 'inherit',
          own[1] ?? 'inherit',
          'ipc',
          ...sockets.map(({ fd }) => fd),
          ...(socket === undefined ? [] : [socket])
        ]
      })
    } finally {
      for (const fd of own) if (fd !== undefined) closeSync(fd)
    }
  }
}

/** Ends a child, if it has begun. It holds its files and sockets until it has ended. */
async function endOf(child: ChildProcess): Promise<void> {
  const ended = child.pid === undefined || child.exitCode !== null || child.signalCode !== null
  if (!ended && child.kill('SIGKILL')) await once(child, 'exit')
}

/** Reopens the output of a process; undefined if that is impossible, as for a socket. */
function outputOf(pid: number | undefined, fd: number): number | undefined {
  if (pid === undefined) return undefined
  try {
    return openSync(`/proc/${pid}/fd/${fd}`, 'a')
  } catch {
    return undefined
  }
}

/** The steps that a child reports, each within its time. They reject with `Failed`. */
function stepsOf(child: ChildProcess) {
  const done = new Map<FromSuccessor['kind'], FromSuccessor>()
  let failed: Failed | undefined
  let look: () => void = () => undefined
  const fail = (reason: string) => {
    failed ??= new Failed(reason)
    look()
  }
  child.on('message', (message) => {
    const said = message as FromSuccessor
    if (said.kind === 'to-tunnels') return
    done.set(said.kind, said)
    look()
  })
  child.on('exit', (code, signal) =>
    fail(`the new process has ended ${signal === null ? `with ${code}` : `by ${signal}`}`)
  )
  const begun = new Promise<number>((resolve, reject) => {
    child.once('spawn', () => resolve(child.pid as number))
    child.on('error', (error) => {
      fail(`the new process cannot be started (${codeOf(error) ?? error.message})`)
      reject(failed)
    })
  })
  return {
    begun,
    step: <Kind extends FromSuccessor['kind']>(kind: Kind) =>
      new Promise<Extract<FromSuccessor, { kind: Kind }>>((resolve, reject) => {
        const late = setTimeout(() => fail(`the new process takes longer than ${STEP / 1_000} s`), STEP)
        look = () => {
          const said = done.get(kind)
          if (failed === undefined && said === undefined) return
          clearTimeout(late)
          if (failed === undefined) resolve(said as Extract<FromSuccessor, { kind: Kind }>)
          else reject(failed)
        }
        look()
      })
  }
}
