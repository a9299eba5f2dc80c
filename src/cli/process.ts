import { writeFileSync, writeSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import type { Clock } from '../lib/clock.js'
import { terminalText } from '../lib/printable.js'
import { fileReason } from '../lib/system-errors.js'

/** Exit codes of commands. Signals that kill a command add 128, as in shells. */
export const ExitCode = {
  /** Done. */
  ok: 0,
  /** The command failed, or the checked input is invalid. */
  failure: 1,
  /** The command line, the environment or the options file asks for something that is not there. */
  usage: 2
} as const

const STOPPING = ['SIGINT', 'SIGTERM'] as const
const INTERRUPTED = 130

/** `npm start` passes a Ctrl-C on that the terminal has sent already: two signals so close together are one wish. */
const SAME_WISH = 500

/**
 * Uncaught errors and rejections of the process. Each is logged; the first one stops the process, because its state may be
 * inconsistent.
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

  /** Restores the default handling: an error ends the process. */
  release(): void {
    process.off('uncaughtException', this.#caught)
  }
}

/** Signals that stop the process: the first stops it gracefully, a later one immediately with exit code 130. */
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

  /** Restores the default handling of signals. */
  release(): void {
    for (const signal of STOPPING) process.off(signal, this.#received)
  }
}

/** Growth of the heap before it is marked again (percent); V8 itself uses up to 300. */
const PERCENT = 200

/**
 * Configures V8; call it first in a process that carries traffic. Data from sockets is outside the heap, but counts as its
 * growth: a small heap is then marked for every few megabytes of traffic, at 400 MB/s six times a second, with pauses of 30
 * ms and three times the CPU per megabyte. With this much room V8 frees those buffers by scavenges (every 64 MB, a
 * millisecond each) before it needs to mark.
 */
export function giveHeapRoom(): void {
  setFlagsFromString(`--heap-growing-percent=${PERCENT}`)
}

/** Names the process for `ps`, `pgrep` and systemd, which else say `node`; its words stay as they are (proc(5), comm). */
export function nameProcess(): void {
  try {
    writeFileSync('/proc/self/comm', 'sluice')
  } catch {
    // Only Linux has it.
  }
}

/** Exit code that shells report for a program ended by SIGPIPE: 128 and the number of the signal. */
const NO_READER = 141

/**
 * Ends the process if writing to `output` fails: silently if its reader has closed it, as in `sluice schema | head`,
 * otherwise with one line on standard error and exit code 1. Repeated calls do nothing.
 */
export function endWithOutput(output: NodeJS.WritableStream): void {
  if (!output.listeners('error').includes(endOnFailure)) output.on('error', endOnFailure)
}

function endOnFailure(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE') process.exit(NO_READER)
  try {
    writeSync(2, `error: the output cannot be written: ${fileReason(error)}\n`)
  } catch {
    // Standard error fails, too: only the exit code reports it.
  }
  process.exit(ExitCode.failure)
}

const IGNORED = () => undefined

/** Lets a command continue if standard error fails, because there is no other output for the error. Repeated calls do nothing. */
export function goOnWithoutErrors(output: NodeJS.WritableStream): void {
  if (!output.listeners('error').includes(IGNORED)) output.on('error', IGNORED)
}

/** Escapes control characters in printed documents and messages on a terminal; other outputs receive them unchanged. */
export function guardTerminal(output: NodeJS.WriteStream): void {
  if (!output.isTTY) return
  const write = output.write.bind(output) as (chunk: unknown, ...rest: readonly unknown[]) => boolean
  output.write = (chunk: unknown, ...rest: readonly unknown[]) =>
    write(typeof chunk === 'string' ? terminalText(chunk) : chunk, ...rest)
}
