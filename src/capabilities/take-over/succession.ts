import { rmSync, writeSync } from 'node:fs'
import { open, readFile, rm } from 'node:fs/promises'
import type { Foundation } from '../../app/foundation.js'
import type { CountersOfLimits } from '../../app/kept-counters.js'
import { partKey } from '../../app/opened-parts.js'
import type { FollowedTunnels } from '../../app/ports.js'
import { handOver } from '../../features/rate-limit/kept/hand-over.js'
import { KeptCounters } from '../../features/rate-limit/kept/reading.js'
import { MAX_CAPACITY, undecided } from '../../features/rate-limit/limiter/decision.js'
import type { LimiterTable } from '../../features/rate-limit/limiter/table.js'
import { type Clock, clockOrigin } from '../../lib/clock.js'
import type { OwnTicketKeys } from '../../proxy/ticket-keys.js'
import type { Agents } from '../tunnel/agents/agents.js'
import type { HandedEndpoint } from '../tunnel/agents/ephemeral-endpoints.js'
import type { FromHolder } from '../workers/sockets/handed-tunnels.js'
import type { FromServing } from '../workers/sockets/protocol.js'
import { TunnelDirectory, TunnelOutlet } from '../workers/sockets/tunnel-outlet.js'
import type { Admissions, HandedLimits, HandedProcess } from './handed.js'
import type { HandingOver } from './handing-over.js'

/** State handed to the successor process. Secrets are Base64. */
export interface HandedState {
  readonly clockOrigin: number
  readonly limiterSecret: string
  readonly ticketKeys: string
  /** Those that agents have opened. */
  readonly endpoints: readonly HandedEndpoint[]
  /** Connects the successor to the agents that are connected here: messages passed to `send` are for its `HandedTunnels`. */
  handTunnels(send: (message: FromHolder) => void): HandedTunnelsEnd
  /**
   * Writes the counters of limits into a new file that only its owner may read. With one deciding thread, its table is
   * written without yielding, so that it is consistent: about 50 ms per 100 MB; with several threads see `handOver`. Later
   * admissions go to `later`. Rejects with the system's error.
   */
  writeLimits(path: string, later: (admissions: Admissions) => void): Promise<WrittenLimits>
}

/** Result of `writeLimits`. */
interface WrittenLimits {
  readonly form: keyof typeof LIMIT_FORMS
  /** Stops reporting admissions. */
  end(): void
}

/** Readers for the formats of saved counters. */
export const LIMIT_FORMS = {
  table: async (path: string): Promise<HandedLimits> => {
    const table = await readFile(path)
    await rm(path, { force: true })
    return { table }
  },
  file: async (path: string): Promise<HandedLimits> => ({ file: path })
}

/** The end of handed tunnels in the process that holds them. */
interface HandedTunnelsEnd {
  receive(message: FromServing): void
  /** The other process has exited. */
  close(): void
}

interface StateParts {
  readonly clock: Clock
  readonly limiter: LimiterTable
  readonly ticketKeys: OwnTicketKeys
  readonly tunnels: FollowedTunnels
  /** Do several threads decide? */
  readonly threaded: boolean
  readonly agents: Pick<Agents, 'handed' | 'handsTo'>
}

/** Returns the state that the successor process takes over. */
export function stateOf({ clock, limiter, ticketKeys, tunnels, agents, threaded }: StateParts): HandedState {
  return {
    clockOrigin: clockOrigin(clock),
    endpoints: agents.handed(),
    handTunnels: (send) => {
      const directory = new TunnelDirectory(tunnels, (message) => send(message as FromHolder))
      agents.handsTo(directory)
      const outlet = new TunnelOutlet(directory, (message) => send(message as FromHolder))
      return {
        receive: (message) => outlet.receive(message as Parameters<TunnelOutlet['receive']>[0]),
        close: () => {
          agents.handsTo(undefined)
          directory.close()
          outlet.close()
        }
      }
    },
    limiterSecret: Buffer.from(limiter.secret).toString('base64'),
    ticketKeys: ticketKeys.current().toString('base64'),
    writeLimits: async (path, later) => {
      if (threaded) {
        const end = await handOver(limiter, clock, path, (admissions) => later(admissions.flat()))
        return { form: 'file', end }
      }
      const file = await open(path, 'w', 0o600)
      try {
        // The write and the subscription share one turn of the event loop, so that no admission is missed.
        const end = report(limiter, later)
        for (const piece of limiter.pieces()) {
          for (let at = 0; at < piece.length; ) at += writeSync(file.fd, piece, at, piece.length - at)
        }
        return { form: 'table', end }
      } finally {
        await file.close()
      }
    }
  }
}

/** Batches the admissions of the table for each turn of the event loop, from now on. Before, decisions have no overhead. */
function report(limiter: Pick<LimiterTable, 'decide'>, later: (admissions: Admissions) => void): () => void {
  const before = limiter.decide
  const decide = before.bind(limiter)
  let gathered: number[] = []
  limiter.decide = (low, high, geometry, capacity, cost, decision) => {
    decide(low, high, geometry, capacity, cost, decision)
    if (!decision.admitted) return
    if (gathered.length === 0) {
      setImmediate(() => {
        const batch = gathered
        gathered = []
        later(batch)
      })
    }
    gathered.push(low, high, geometry.seconds, cost)
  }
  return () => {
    limiter.decide = before
  }
}

/** Counts admissions of another table, slightly later than they occurred, so that no window exceeds its capacity. */
function count(limiter: LimiterTable, admissions: Admissions): void {
  const decision = undecided()
  for (let at = 0; at + 4 <= admissions.length; at += 4) {
    const [low = 0, high = 0, seconds = 0, cost = 1] = admissions.slice(at, at + 4)
    limiter.decide(low, high, limiter.geometry(seconds), MAX_CAPACITY, cost, decision)
  }
}

/** Loads the predecessor's counters. Returns false, without changes, if they cannot be read. */
function resumed(limiter: LimiterTable, limits: HandedLimits): boolean {
  if ('table' in limits) return limiter.resume(limits.table)
  let kept: KeptCounters | undefined
  try {
    kept = KeptCounters.open(limits.file)
    if (kept === undefined) return false
    kept.check()
    kept.fill(limiter.contents)
    return true
  } catch {
    return false
  } finally {
    kept?.close()
    rmSync(limits.file, { force: true })
  }
}

/**
 * Loads the counters of the predecessor and adds its later admissions, before ports are opened. Without usable counters from
 * it, those in the data folder are loaded.
 */
export async function takePlace(
  predecessor: Pick<HandedProcess, 'limits' | 'admitted'>,
  { limiter, log }: Pick<Foundation, 'limiter' | 'log'>,
  counters: Pick<CountersOfLimits, 'fill'> | undefined
): Promise<void> {
  const limits = await predecessor.limits()
  if (limits === undefined || !resumed(limiter, limits)) {
    log.warn(
      counters === undefined
        ? 'counters of limits begin anew: the process before has left none, or limiter.budget is another one'
        : 'counters of limits come from the data folder: the process before has left none, or limiter.budget is another one'
    )
    await counters?.fill({ table: limiter, log })
  }
  predecessor.admitted((admissions) => count(limiter, admissions))
}

/** Lets another process take the place of this one. */
export interface Succession {
  readonly handingOver: Pick<HandingOver, 'release' | 'takeBack' | 'give'>
  /** Returns the state for the successor process. */
  state(): HandedState
}

/** The way by which another process takes the place of this one. */
export const SUCCESSION = partKey<Succession>('succession')
