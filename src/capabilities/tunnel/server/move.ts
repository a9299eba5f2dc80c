import { setTimeout as sleep } from 'node:timers/promises'
import type { Tunnel } from './tunnel.js'

/** Where visitors of tunnels come from that are about to go elsewhere. */
export interface Gate {
  /** Visitors wait before the tunnel. */
  pause(tunnel: Tunnel): void
  /** They come in again. */
  resume(tunnel: Tunnel): void
}

/** The connection of an agent as far as it is needed here. */
interface Moved {
  tunnels(): Iterable<Tunnel>
  /** Resolves with true as soon as no visitor is there, or with false after so many milliseconds. */
  idle(within: number): Promise<boolean>
  close(detail: string): void
}

/** How long visitors wait at most for those who are there to end, and how long they come in again after that was in vain. Milliseconds. */
const PATIENCE = { first: 250, later: 1_000 }
const AGAIN = 2_000

/**
 * Lets an agent go to the process that takes the place of this one: says goodbye when no visitor is on its connection, which makes it connect
 * again at once. Visitors who come meanwhile wait for a moment; where those who are there take longer, such as a WebSocket, others come
 * in again, and it is tried later. After `within` milliseconds the agent goes, and what is left is cut. Never rejects.
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
