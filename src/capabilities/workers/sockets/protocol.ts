import type { Socket } from 'node:net'
import type { ConnectionFacts, Failure } from '../../../flow/exchange.js'
import type { Crowding } from '../../../lib/client-limits.js'
import type { Address } from '../../../proxy/ports.js'
import type { TunnelUpstream } from '../../../runtime/plan.js'
import type { PipeMessage } from '../../../transport/thread-pipe.js'

/** A tunnel as threads know it that do not hold it. Plain data. */
export interface TunnelFacts {
  /** Unique number within the process. */
  readonly number: number
  readonly id: string
  /** Labels that select the tunnel. */
  readonly labels: TunnelUpstream['labels']
  readonly http2: boolean
  /** May a connection through it wait for another request? */
  readonly reusable: boolean
  /** Wall clock, milliseconds. */
  readonly startedAt: number
}

/**
 * Messages from the thread that accepts connections to a worker. The accepting thread holds the limits, where a connection
 * has a numbered place. Messages arrive in order.
 */
export type ToServing =
  /**
   * Announces a port that accepts connections for the configuration under `key`. `mark` identifies a state of it:
   * connections are served by the state in which they were accepted.
   */
  | {
      readonly kind: 'port'
      readonly port: number
      readonly key: string
      readonly mark: string
      readonly address: Address
    }
  /** No connection of this port will follow. */
  | { readonly kind: 'closed'; readonly port: number }
  /** `named`: it has its place among those of its address. */
  | {
      readonly kind: 'socket'
      readonly port: number
      readonly socket: Socket
      readonly id: number
      readonly startedAt: number
      readonly place: number
      readonly named: boolean
    }
  /** The address of `place-of` has room, or not. */
  | { readonly kind: 'placed'; readonly place: number; readonly full: Crowding | undefined }
  /** The connection of `lasts` may become a pipe, or not. */
  | { readonly kind: 'lasting'; readonly place: number; readonly admitted: boolean }
  /** A handshake of `terminates` has a place, or not. */
  | { readonly kind: 'terminating'; readonly serial: number; readonly full: Crowding | undefined }
  /** Tunnels of agents that have begun, and numbers of those that are over. */
  | { readonly kind: 'tunnels'; readonly begun: readonly TunnelFacts[]; readonly ended: readonly number[] }
  /** Result of `open-tunnel`. `refused`: there is no pipe. */
  | {
      readonly kind: 'pipe-opened'
      readonly pipe: number
      readonly refused?: { readonly failure: Failure; readonly message: string }
    }
  /** The pipe leads through another tunnel now: no further exchange should use it. */
  | { readonly kind: 'pipe-moved'; readonly pipe: number }
  | PipeMessage

/** Messages from a worker to the accepting thread. */
export type FromServing =
  /** Numbers of places: of connections that have ended, and of those that are past their handshake; serials of handshakes that are over. */
  | {
      readonly kind: 'places'
      readonly left: readonly number[]
      readonly shaken: readonly number[]
      readonly terminated: readonly number[]
    }
  /** Reports the client address of a PROXY header. */
  | { readonly kind: 'place-of'; readonly place: number; readonly address: string }
  /** A connection is about to become a pipe. */
  | { readonly kind: 'lasts'; readonly place: number }
  /** A connection to a TCP edge is about to shake hands. */
  | { readonly kind: 'terminates'; readonly serial: number; readonly address: string }
  /** A pipe through this tunnel is wanted, or through another one with these labels that takes it. */
  | {
      readonly kind: 'open-tunnel'
      readonly pipe: number
      readonly tunnel: number
      readonly labels: TunnelUpstream['labels']
      readonly client: Pick<ConnectionFacts, 'peer' | 'local' | 'listener' | 'passed'>
      readonly bytes: boolean
      readonly http2: boolean
    }
  | PipeMessage
