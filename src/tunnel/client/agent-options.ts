import type { LookupFunction } from 'node:net'
import type { MuxStream } from '../protocol/stream.js'
import type { Labels } from '../server/authority.js'
import type { Target } from './target.js'
import type { VisitorHead } from './visitors.js'

/** Where the server listens for agents. */
export interface ServerAddress {
  readonly host: string
  readonly port: number
  /** PEM of the authorities that are trusted instead of the system's. */
  readonly ca?: string
  /** Name in the server's certificate; `host` when left out. */
  readonly serverName?: string
  /** Answers names; the system's resolver when left out. */
  readonly lookup?: LookupFunction
}

/** What is reached under a name or port of its own. */
export interface EndpointOffer {
  readonly proto: 'http' | 'https' | 'tcp'
  /** Name, or host:port; left out: the server makes one. */
  readonly at?: string
  /** Text of a traffic policy document that the server runs. */
  readonly trafficPolicy?: string
  /** Others with the same credential may serve it too. */
  readonly pooled?: boolean
}

/** Brings a visitor to the target; `failed` hears why it could not be. */
export type Forward = (stream: MuxStream, head: VisitorHead, failed: (why: string) => void) => void

/** One tunnel: selected by its labels, or an endpoint. */
export type AgentTunnel = {
  readonly target: Target
  /** The target as the user wrote it. */
  readonly forwardsTo: string
  readonly metadata?: string
  /** Left out: bytes go to the target as they are. */
  readonly forward?: Forward
} & (
  | { readonly labels: Labels; readonly endpoint?: undefined }
  | { readonly endpoint: EndpointOffer; readonly labels?: undefined }
)
