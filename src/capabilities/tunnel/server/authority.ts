import { createHmac, timingSafeEqual } from 'node:crypto'

/** Labels of a tunnel. */
export type Labels = Readonly<Record<string, string>>

/** Rejection of an agent's request. The message is shown to its user unchanged and contains no secret. */
export interface BindDenied {
  readonly refused: string
}

/** Facts that an agent reports, and its address. */
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

/** Decides which agents may connect, and their permitted bindings. */
export interface TunnelAuthority<G extends Grant = Grant> {
  /** Rejects only for a reason that is ours: the agent is then kept waiting instead of turned away. */
  authenticate(token: string, facts: AgentFacts): Promise<G | BindDenied>
  mayBindLabels(grant: G, labels: Labels): BindDenied | undefined
  /** Also called for generated names. */
  mayBindDomain(grant: G, host: string): BindDenied | undefined
  /** `address` is host:port; undefined for any free port. */
  mayBindAddress(grant: G, address: string | undefined): BindDenied | undefined
}

/** Was the bind refused? */
export function isBindDenied(answer: object | undefined): answer is BindDenied {
  return answer !== undefined && 'refused' in answer
}

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const LENGTH = 27

/** Endpoint of a reconnecting agent, named by a token of the server. */
export interface EndpointClaim {
  readonly id: string
  /** host, or host:port of a TCP endpoint. */
  readonly at: string
  /** The name or port was made here. */
  readonly made: boolean
}

/**
 * Names that agents keep over a lost connection, without stored state: everything is derived from, or signed with, one
 * secret. With the same secret they survive a restart; a name implies no rights, which are checked again.
 */
export class Identities {
  readonly #secret: Uint8Array

  /** `secret`: at least 32 random bytes. */
  constructor(secret: Uint8Array) {
    this.#secret = secret
  }

  /** Proves later that the session `clientId` was opened by `credential`. */
  cookie(clientId: string, credential: string): string {
    return this.#mac(['cookie', clientId, credential]).toString('base64url')
  }

  ownsSession(cookie: string, clientId: string, credential: string): boolean {
    return equal(cookie, this.cookie(clientId, credential))
  }

  /** The same for the same offer in the same session; `ordinal` distinguishes equal offers. */
  labelledId(clientId: string, labels: Labels, metadata: string, forwardsTo: string, ordinal: number): string {
    const sorted = Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1))
    return `tn_${digits(this.#mac(['labels', clientId, sorted, metadata, forwardsTo, ordinal]))}`
  }

  /** A token with which the same credential gets its endpoint back. */
  endpointToken({ id, at, made }: EndpointClaim, credential: string): string {
    const claim = Buffer.from(JSON.stringify([id, at, made])).toString('base64url')
    return `${claim}.${this.#mac(['endpoint', claim, credential]).toString('base64url')}`
  }

  readEndpointToken(token: string, credential: string): EndpointClaim | undefined {
    const dot = token.indexOf('.')
    const claim = token.slice(0, Math.max(0, dot))
    const expected = this.#mac(['endpoint', claim, credential]).toString('base64url')
    if (dot === -1 || !equal(token.slice(dot + 1), expected)) return undefined
    const [id, at, made] = JSON.parse(Buffer.from(claim, 'base64url').toString()) as [string, string, boolean]
    return { id, at, made }
  }

  #mac(parts: readonly unknown[]): Buffer {
    return createHmac('sha256', this.#secret).update(JSON.stringify(parts)).digest()
  }
}

function equal(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}

function digits(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes.subarray(0, LENGTH)) text += DIGITS[byte % DIGITS.length]
  return text
}

const BIND = 'bind:'

/**
 * Permitted bindings of a credential: rules `bind:<domain>`, `bind:<host:port>`, `bind:<key>=<value>` or `*`. No rules, or
 * one `*`, allow everything. A rule with `=` is about labels, and either side may be `*`; a domain that begins with `*.`
 * includes every name below it.
 */
export class BindRules {
  readonly #everything: boolean
  readonly #labels: (readonly [key: string, value: string])[] = []
  readonly #names = new Set<string>()
  readonly #suffixes: string[] = []

  constructor(rules: readonly string[]) {
    this.#everything = rules.length === 0 || rules.includes('*')
    for (const rule of rules) {
      if (!rule.startsWith(BIND)) continue
      const target = rule.slice(BIND.length)
      const equals = target.indexOf('=')
      if (equals !== -1) this.#labels.push([target.slice(0, equals), target.slice(equals + 1)])
      else if (target.startsWith('*.')) this.#suffixes.push(target.slice(1).toLowerCase())
      else this.#names.add(target.toLowerCase())
    }
  }

  /** Every label must be covered by a rule. */
  allowsLabels(labels: Labels): boolean {
    if (this.#everything) return true
    return Object.entries(labels).every(([key, value]) =>
      this.#labels.some(([ruleKey, ruleValue]) => covers(ruleKey, key) && covers(ruleValue, value))
    )
  }

  /** `host` in lower case. */
  allowsDomain(host: string): boolean {
    return this.#everything || this.#names.has(host) || this.#suffixes.some((suffix) => host.endsWith(suffix))
  }

  /** `address` is host:port; undefined, any free port, needs the right to everything. */
  allowsAddress(address: string | undefined): boolean {
    return this.#everything || (address !== undefined && this.#names.has(address.toLowerCase()))
  }
}

function covers(rule: string, text: string): boolean {
  return rule === '*' || rule === text
}

/** Rights of a credential. Its rules follow their record during the session. */
export interface CredentialGrant extends Grant {
  readonly account: string
  /** Id of the user or bot who owns the credential. */
  readonly owner: string
  /** The owner is an administrator. */
  readonly administrator: boolean
  /** Hash of the token that opened the session. */
  readonly tokenHash: string
  rules: BindRules
}
