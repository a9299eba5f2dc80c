import { writeSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import type { Clock } from '../lib/clock.js'
import { terminalText } from '../lib/printable.js'
import { fileReason } from '../lib/system-errors.js'

/** What a command ends with. Signals that end it at once add 128, as shells do. */
export const ExitCode = {
  /** Done. */
  ok: 0,
  /** It could not be done, or what was checked is wrong. */
  failure: 1,
  /** The command line, the environment or the options file asks for something that is not there. */
  usage: 2
} as const

const STOPPING = ['SIGINT', 'SIGTERM'] as const
const INTERRUPTED = 130

/** `npm start` passes a Ctrl-C on that the terminal has sent already: two signals so close together are one wish. */
const SAME_WISH = 500

/**
 * Errors of the process that nothing has caught, rejections too. Each is a line of the log; the first asks the process to end, since what it holds may be
 * half done from then on.
 */
export class UncaughtErrors {
  readonly #first: Promise<Error>
  readonly #caught: (error: unknown) => void

  constructor(log: { fatal(fields: object, message: string): void }) {
    let resolve: (error: Error) => void
    this.#first = new Promise((done) => {
      resolve = done
    })
    this.#caught = (error) => {
      log.fatal({ err: error }, 'uncaught error: the process exits')
      resolve(error instanceof Error ? error : new Error(String(error)))
    }
    process.on('uncaughtException', this.#caught)
  }

  /** Resolves with the first error, also when it came before the call. */
  next(): Promise<Error> {
    return this.#first
  }

  /** From now on an error ends the process as it does without this. */
  release(): void {
    process.off('uncaughtException', this.#caught)
  }
}

/** The signals that end the process: the first asks it to finish, a later one ends it at once with 130. */
export class StopSignals {
  readonly #first: Promise<NodeJS.Signals>
  readonly #received: (signal: NodeJS.Signals) => void

  constructor(clock: Clock) {
    let since: number | undefined
    let resolve: (signal: NodeJS.Signals) => void
    this.#first = new Promise((done) => {
      resolve = done
    })
    this.#received = (signal) => {
      if (since === undefined) {
        since = clock.monotonic()
        resolve(signal)
      } else if (clock.monotonic() - since > SAME_WISH) process.exit(INTERRUPTED)
    }
    for (const signal of STOPPING) process.on(signal, this.#received)
  }

  /** Resolves with the first signal, also when it came before the call. */
  next(): Promise<NodeJS.Signals> {
    return this.#first
  }

  /** From now on signals end the process as they do without this. */
  release(): void {
    for (const signal of STOPPING) process.off(signal, this.#received)
  }
}

/** By how much of its size the heap may grow before it is marked again; V8 itself goes up to 300. */
const PERCENT = 200

/**
 * Call it first in a process that carries traffic. What is read from sockets lies outside the heap and yet counts as its
 * growth: a small heap is then marked for every few megabytes that pass, at 400 MB/s six times a second, with pauses of 30 ms
 * and three times the CPU per megabyte. With this much room V8 frees those buffers by scavenges (every 64 MB, a
 * millisecond each) before it comes to mark.
 */
export function giveHeapRoom(): void {
  setFlagsFromString(`--heap-growing-percent=${PERCENT}`)
}

/** What a shell reports of a program that SIGPIPE has ended: 128 and the number of the signal. */
const NO_READER = 141

/**
 * Ends the process when `output` takes no more: without a word when its reader has gone, as in `sluice schema | head`, else with one line
 * on standard error and exit code 1. Calling it again does nothing.
 */
export function endWithOutput(output: NodeJS.WritableStream): void {
  if (!output.listeners('error').includes(endOnFailure)) output.on('error', endOnFailure)
}

function endOnFailure(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE') process.exit(NO_READER)
  try {
    writeSync(2, `error: the output cannot be written: ${fileReason(error)}\n`)
  } catch {
    // Standard error takes nothing either: the exit code says it.
  }
  process.exit(ExitCode.failure)
}

const IGNORED = () => undefined

/** Lets a command go on when standard error cannot be written: there is no other place to say it. Calling it again does nothing. */
export function goOnWithoutErrors(output: NodeJS.WritableStream): void {
  if (!output.listeners('error').includes(IGNORED)) output.on('error', IGNORED)
}

/** Keeps a terminal from obeying what a command prints of documents, clients and servers; another output gets all as it is. */
export function guardTerminal(output: NodeJS.WriteStream): void {
  if (!output.isTTY) return
  const write = output.write.bind(output) as (chunk: unknown, ...rest: readonly unknown[]) => boolean
  output.write = (chunk: unknown, ...rest: readonly unknown[]) =>
    write(typeof chunk === 'string' ? terminalText(chunk) : chunk, ...rest)
}
