import type { Socket } from 'node:net'
import type { Logger } from 'pino'
import type { Running } from '../app/app.js'
import type { Capability } from '../app/capability.js'
import type { Host } from '../app/foundation.js'
import type { InheritedSockets } from '../lib/inherited-sockets.js'
import type { Options } from '../options/options.js'
import type { CheckFile } from './documents.js'
import type { ProcessLog } from './log.js'
import type { StopSignals } from './process.js'

/** A process that was started to take the place of another one. */
export interface SuccessorProcess {
  /** Sockets inherited from the other process. */
  readonly sockets: InheritedSockets
  /**
   * Checks the files that the options name with `check`, and the ports that are not inherited. Returns the problems, as lines to print.
   */
  problems(options: Options, environment: NodeJS.ProcessEnv, check: CheckFile): Promise<readonly string[]>
  /**
   * Does the start without opening anything, then waits until the other process has released store and ports. Returns what the start has from it;
   * nothing if it has ended. Rejects with the errors of a start.
   */
  takesPlace(options: Options, host: Host, capabilities: readonly Capability[]): Promise<Partial<Host>>
  /** The process serves, `take` also connections that the other one has accepted; resolves when that has left its place in the data folder. */
  serves(take: (connection: Socket) => void): Promise<void>
  /** Prints the reason of a failed start to the command that requested it. */
  explains(line: string): void
  /** The process ends with this code. */
  ends(code: number): void
}

/** Lets other processes take the place of this one. */
interface OpenToSuccessors {
  /** Resolves with the id of the process that serves in the place of this one. */
  next(): Promise<number>
  /** No process takes over any more. */
  close(): void
}

/** Facts for processes that take the place of this one. */
interface ReplaceableProcess {
  readonly folder: string
  readonly log: Logger
  readonly running: Pick<Running, 'opened' | 'lastError'>
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Called before the process lets go of its configuration, and when it has it again. */
  readonly releasing: () => Promise<void>
  readonly tookBack: () => Promise<void>
}

/** Takes part in the command `sluice start`. */
export interface ProcessHooks {
  /** Returns the successor; undefined if this process is none. */
  successor?(environment: NodeJS.ProcessEnv): SuccessorProcess | undefined
  /** Makes a process take the place of the one on the folder. Resolves with the exit code; undefined if no process runs there. */
  takeOver?(folder: string, signals: StopSignals): Promise<number | undefined>
  /** Lets processes take the place of this one. */
  replaceable?(process: ReplaceableProcess): Promise<OpenToSuccessors>
  /** Returns the threads that the options ask for; undefined if the main thread carries all traffic. */
  threads?(options: Options, log: ProcessLog): Promise<Host['threads']>
}
