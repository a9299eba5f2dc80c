/** A connected agent. */
export interface LiveSession {
  /** `ts_` and a KSUID, so that ids sort by time. */
  readonly id: string
  /** Milliseconds since the Unix epoch. */
  readonly startedAt: number
  readonly agentVersion: string
  /** Id of the credential that opened it. */
  readonly credential: string
  readonly ip: string
  readonly metadata: string
  readonly os: string
  readonly region: string
  readonly transport: string
}

/** A tunnel of an agent. */
export interface LiveTunnel {
  /** `tn_` and a KSUID, so that ids sort by time. */
  readonly id: string
  /** Milliseconds since the Unix epoch. */
  readonly startedAt: number
  /** Id of its session. */
  readonly session: string
  /** Empty for one that is selected by labels. */
  readonly publicUrl: string
  /** http, https, tcp or tls; empty for one that is selected by labels. */
  readonly proto: string
  readonly region: string
  readonly metadata: string
  /** Empty for one that has a URL. */
  readonly labels: Readonly<Record<string, string>>
  readonly forwardsTo: string
  /** True if others may share its URL. Processes of older versions do not say it. */
  readonly pooled?: boolean
}

/** A command to the session of an agent. */
export type SessionCommand = 'stop' | 'restart' | 'update'

/** Called when a session or tunnel starts, changes or ends. */
export type LiveChange = (what: 'session' | 'tunnel', id: string) => void

/** Agents and tunnels in the memory of this process, which the API shows beside the records. */
export interface LiveSources {
  tunnelSessions(): Iterable<LiveSession>
  tunnels(): Iterable<LiveTunnel>
  /** Ids of the tunnel group backends that select a tunnel with these labels, in the configuration that serves here. */
  backendsOf(labels: LiveTunnel['labels']): readonly string[]
  /** Sends a command to an agent; false when there is no such session. Fails with `UNAVAILABLE` when the agent does not do it. */
  command(session: string, command: SessionCommand): Promise<boolean>
  /** Sets the only listener, which is called with each change; it must not throw. */
  watch(changed: LiveChange): void
}

/** A process without agents. */
export const noLiveSources: LiveSources = {
  tunnelSessions: () => [],
  tunnels: () => [],
  backendsOf: () => [],
  command: async () => false,
  watch: () => undefined
}
