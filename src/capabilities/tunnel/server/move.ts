import { setTimeout as sleep } from 'node:timers/promises'
import type { Tunnel } from './tunnel.js'

/** Entry of visitors to tunnels that are about to move. */
export interface Gate {
  /** Visitors wait before the tunnel. */
  pause(tunnel: Tunnel): void
  /** They come in again. */
  resume(tunnel: Tunnel): void
}

/** Connection of an agent to be moved. */
interface Moved {
  tunnels(): Iterable<Tunnel>
  /** Resolves with true once there are no visitors, or with false after this time (ms). */
  idle(within: number): Promise<boolean>
  close(detail: string): void
}

/** Maximum pause of visitors while waiting for active ones, on the first attempt and later (ms). */
const PATIENCE = { first: 250, later: 1_000 }
/** Time between attempts in which visitors are admitted (ms). */
const AGAIN = 2_000

/**
 * Moves an agent to the successor process: disconnects it when it has no visitors, so that it reconnects immediately. New
 * visitors are paused briefly; if active ones, such as a WebSocket, take longer, new ones are admitted again, and a later
 * attempt follows. After `within` milliseconds the agent is disconnected, and remaining visitors are cut. Never rejects.
 */
export async function moveSession(session: Moved, gate: Gate, within: number): Promise<void> {
  const end = performance.now() + within
  for (let patience = PATIENCE.first; ; patience = PATIENCE.later) {
    const left = Math.max(0, end - performance.now())
    const paused = [...session.tunnels()]
    for (const tunnel of paused) gate.pause(tunnel)
    if ((await session.idle(Math.min(patience, left))) || left <= patience) break
    for (const tunnel of paused) gate.resume(tunnel)
    await sleep(Math.max(0, Math.min(AGAIN, end - performance.now() - PATIENCE.later)))
  }
  session.close('another process takes its place')
}
