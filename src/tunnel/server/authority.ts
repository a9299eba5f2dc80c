/** Labels of a tunnel. */
export type Labels = Readonly<Record<string, string>>

/** Why an agent does not get what it asked for. The message reaches its user word for word and holds no secret. */
export interface Refusal {
  readonly refused: string
}

/** What an agent says of itself, and where it comes from. */
export interface AgentFacts {
  readonly ip: string
  /** Such as `ngrok-javascript/1.7.0 ngrok-rust/0.18.0`. */
  readonly userAgent: string
  readonly version: string
  readonly clientType: string
  readonly os: string
  readonly arch: string
  readonly hostname: string
  readonly metadata: string
  /** The server name of its TLS handshake. */
  readonly serverName: string | undefined
}

/** A token's rights. `credential` identifies it for as long as the session lives. */
export interface Grant {
  readonly credential: string
  /** Shown to the agent's user. */
  readonly account?: string
}

/** Who may connect and what they may bind. */
export interface TunnelAuthority<G extends Grant = Grant> {
  /** Rejects only for a reason that is ours: the agent is then kept waiting instead of turned away. */
  authenticate(token: string, facts: AgentFacts): Promise<G | Refusal>
  mayBindLabels(grant: G, labels: Labels): Refusal | undefined
  /** Asked for names that were made up here too. */
  mayBindDomain(grant: G, host: string): Refusal | undefined
  /** `address` is host:port; undefined: any port that is free. */
  mayBindAddress(grant: G, address: string | undefined): Refusal | undefined
}

export function isRefusal(answer: object | undefined): answer is Refusal {
  return answer !== undefined && 'refused' in answer
}
