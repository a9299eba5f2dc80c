import type { PathForm } from '../flow/target.js'
import type { ShardedMap } from '../lib/sharded-map.js'
import type { FileUpstream, ResponseUpstream } from './answering-upstreams.js'

/**
 * The whole running configuration as plain data: keyed, immutable units that refer to each other by key. Whatever can
 * be said about a configuration is a function of this. Secrets are no part of it: units hold references to them.
 */
export interface Plan {
  /** Counts the changes of this process. Each change says which plan it continues. */
  readonly number: number
  readonly units: ShardedMap<Unit>
}

/** Where a secret value is found. Another version means that the value may be another. */
export interface SecretReference {
  readonly secret: string
  readonly version: number
}

/** A socket that accepts traffic. Key `listener:<name>`. */
export interface ListenerUnit {
  readonly kind: 'listener'
  readonly name: string
  readonly host: string
  readonly port: number
  /** TLS ends here. */
  readonly tls: boolean
  /** The port that clients know; then only edges with this port are served here. Absent: it is `port`, and hosts without a port are served as well. */
  readonly publicPort?: number
  /** Do trusted peers say in a PROXY header whom they speak for? */
  readonly proxyProtocol: boolean
  /** The form of paths on edges that do not say; absent: strict. */
  readonly pathForm?: PathForm
}

interface UpstreamBase {
  readonly kind: 'upstream'
}

/** Statuses of HTTP from one to another, both included. */
export type StatusRange = readonly [from: number, to: number]

/** How a server is asked whether it works. */
export interface HealthCheck {
  /** `tcp`: a connection is enough, over TLS with its handshake. `grpc`: the health protocol of gRPC, over HTTP/2. */
  readonly type: 'http' | 'tcp' | 'grpc'
  /** Service of gRPC that is asked for; '': the server as a whole. */
  readonly service: string
  /** Path and query; only for HTTP. */
  readonly path: string
  /** Value of Host; absent: the address. */
  readonly host?: string
  /** Milliseconds from one check to the next. */
  readonly interval: number
  /** Milliseconds that one check may take. */
  readonly timeout: number
  /** Statuses that say that it works. */
  readonly statuses: readonly StatusRange[]
  /** Checks in a row that must pass until a server that is down is up. */
  readonly rise: number
  /** Checks in a row that must fail until a server that is up is down. */
  readonly fall: number
}

/** What traffic shows of a server. */
interface PassiveHealth {
  /** Failures in a row until it is taken for down. */
  readonly failures: number
  /** Statuses that are failures, and after which another server is asked where that is safe. */
  readonly statuses: readonly StatusRange[]
}

/** Why a request is sent again; statuses stand beside them. */
export type RetryCondition = 'connect' | 'refused_stream' | 'closed' | 'timeout'

/** When a request that failed is sent again. */
export interface Retries {
  /** Tries of one request, the first one included. */
  readonly attempts: number
  readonly on: readonly RetryCondition[]
  /** Statuses after which it is sent again. */
  readonly statuses: readonly StatusRange[]
  /** What may have been processed is sent again with these methods alone. */
  readonly methods: 'safe' | 'idempotent'
  /** Most retries in a second; absent: no bound. */
  readonly perSecond?: number
  /** Retries that each request adds to the budget, 0 to 1; absent: no bound. */
  readonly share?: number
}

/** A certificate by the SHA-256 of all of it (DER) or of its public key (SubjectPublicKeyInfo). */
export interface CertificatePin {
  readonly of: 'certificate' | 'public-key'
  /** 64 lower-case hexadecimal digits. */
  readonly sha256: string
}

/** One server at an address. */
export interface AddressUpstream extends UpstreamBase {
  readonly form: 'address'
  readonly protocol: 'http' | 'https'
  /** With `service` the domain of the service. */
  readonly host: string
  /** With `service` 0. */
  readonly port: number
  /** Its servers are the targets of the records SRV of this name (RFC 2782). */
  readonly service?: string | undefined
  /** Absolute path of the Unix domain socket that it listens on; then `host` is `localhost` and `port` 0. */
  readonly socket?: string
  /** Path that stands before that of each request, without a slash at its end. Absent: none. */
  readonly pathPrefix?: string
  /** Version of the PROXY protocol whose header begins each connection. Absent: none does. */
  readonly proxyProtocol?: 1 | 2
  /** PEM text of the certificate authorities to trust instead of the system's; only for https. */
  readonly certificateAuthorities?: string
  /** It is spoken to in HTTP/2: by ALPN with https, by prior knowledge with http. Absent: HTTP/1.1. */
  readonly http2?: boolean
  /** Its answers may break the grammar of HTTP/1, as far as they cannot be taken for others. Absent: they must keep to it. */
  readonly lenient?: true
  /** Protocols beside WebSocket, in lower case, that clients may switch to (RFC 9110 7.8). Absent: none. */
  readonly upgrades?: readonly string[]
  /** Most exchanges and connections that one of its servers carries at a time, and how many wait for how long (milliseconds). Absent: no bound. */
  readonly maxConnections?: number
  readonly queue?: { readonly length: number; readonly timeout: number }
  /** The name that is sent and must stand in the certificate; absent: the host. Only for https. */
  readonly servername?: string
  /** Only for https; absent: TLS 1.2. */
  readonly minVersion?: 'TLSv1.2' | 'TLSv1.3'
  /** Certificates that it may show; without `certificateAuthorities` in place of an authority. Only for https. */
  readonly pins?: readonly CertificatePin[]
  /** False accepts any certificate. Only for https; absent: certificates are checked. */
  readonly verify?: false
  /** Key of the certificate that is shown to it when it asks for one. Only for https. */
  readonly clientCertificate?: string
  readonly health?: HealthCheck
  readonly passiveHealth?: PassiveHealth
  /** Absent: as `proxy/retries` has it. */
  readonly retries?: Retries
  /** Milliseconds, instead of those of the options. */
  readonly timeouts?: { readonly connect?: number; readonly response?: number; readonly idle?: number }
}

/** A cookie by which a client keeps its server. */
export interface Sticky {
  readonly cookie: string
  /** Milliseconds; absent: as long as the browser runs. */
  readonly ttl?: number
  readonly path: string
  readonly sameSite: 'Lax' | 'Strict' | 'None'
}

/** How one of several servers is chosen. */
export interface Balance {
  /**
   * `least_requests`: the one that carries the fewest, in proportion to its weight. `hash`: the same for all requests with the
   * same `hashKey`. Absent: round robin.
   */
  readonly balance?: 'least_requests' | 'hash'
  /** Source of an expression, as `compileHashKey` takes it. */
  readonly hashKey?: string
  readonly sticky?: Sticky
}

/** Shares traffic between upstreams in proportion to their weights; keys of units with weights. */
export interface WeightedUpstream extends UpstreamBase, Balance {
  readonly form: 'weighted'
  readonly members: readonly { readonly upstream: string; readonly weight: number }[]
  /** When less than this share of its members, 0 to 1, is up, all of them are tried. */
  readonly panicThreshold?: number
  /** Milliseconds in which a member that has come back rises to its weight. */
  readonly slowStart?: number
}

/** The first of these upstreams that works; keys of units. */
interface FailoverUpstream extends UpstreamBase {
  readonly form: 'failover'
  readonly members: readonly string[]
}

/** The tunnels that carry all of these labels. */
export interface TunnelUpstream extends UpstreamBase, Balance {
  readonly form: 'tunnels'
  /** Id of the backend. */
  readonly id: string
  readonly labels: Readonly<Record<string, string>>
}

/** Where a route sends traffic. Key `upstream:<name>`. */
export type UpstreamUnit =
  | AddressUpstream
  | ResponseUpstream
  | FileUpstream
  | WeightedUpstream
  | FailoverUpstream
  | TunnelUpstream

/** A traffic policy document. Key `policy:<owner>`. */
export interface PolicyUnit {
  readonly kind: 'policy'
  /** Part of the identity of the counters of its actions. */
  readonly owner: string
  readonly text: string
  /** Where the text came from, for messages: a file name or a URI. */
  readonly source: string
  /** What carries the policy, where that is a TCP edge: old names of phases have another meaning there. */
  readonly carrier?: 'tcp'
  /** An agent has sent it: it has the rights of that agent alone. */
  readonly author?: 'agent'
}

/**
 * What the modules of a route or of a TCP edge do, by their names: the configuration of each in the form that
 * `modules/<name>` takes, or a list of these, which run in its order. The traffic policy names the key of its unit.
 */
export type ModuleConfigs = Readonly<Record<string, unknown>>

/** What happens to the requests of an edge whose path matches. Key `route:<id>`. */
export interface RouteUnit {
  readonly kind: 'route'
  readonly id: string
  /** Id of its edge; without it the route serves no request. */
  readonly edge: string
  readonly match: 'exact' | 'prefix'
  readonly path: string
  /** Key of a unit; absent: nothing to forward to. */
  readonly upstream?: string
  readonly modules: ModuleConfigs
}

/** A host with the public port on which it is served; `*.example.com` for every name below. */
export interface HostPort {
  readonly host: string
  readonly port: number
}

/** An entry for HTTP traffic. Key `edge:<id>`. */
export interface EdgeUnit {
  readonly kind: 'edge'
  readonly id: string
  /** Lower-case names; `every`: each host and port that no other edge claims. */
  readonly hosts: readonly HostPort[] | 'every'
  /** What clients speak to it; absent: https. */
  readonly protocol?: 'http'
  /** Key of the policy whose `on_tcp_connect` sees connections; only on the edge of every host. */
  readonly connectPolicy?: string
  /** What TLS asks of clients here; absent: the rules of the listener. */
  readonly tls?: EdgeTls
  /** It serves only what no other edge asks for, by name or wildcard: an agent has opened it. */
  readonly yields?: true
  /** TLS of its names is not ended: the TCP edge of the same id carries their connections. It has no routes. */
  readonly passthrough?: true
  /** The form of paths; absent: that of the listener. */
  readonly pathForm?: PathForm
  /** What clients without TLS get; absent: what the unit `https:default` says. */
  readonly onHttp?: OnHttp
  /** Absent: as the unit `https:default` says. */
  readonly hsts?: Hsts
}

/** What an edge for HTTPS answers to clients that come without TLS. */
export type OnHttp = 'serve' | 'redirect' | 'refuse'

/** What browsers are to remember of a host: Strict-Transport-Security (RFC 6797 6.1). */
export interface Hsts {
  /** Seconds; 0: they forget it. */
  readonly maxAge: number
  readonly includeSubdomains: boolean
  readonly preload: boolean
}

/** What holds for the edges for HTTPS that do not say. Key `https:default`. */
export interface HttpsUnit {
  readonly kind: 'https'
  readonly onHttp: OnHttp
  readonly hsts?: Hsts
}

/** What TLS asks of the clients of one edge. */
export interface EdgeTls {
  readonly minVersion?: '1.0' | '1.1' | '1.2' | '1.3'
  /** Keys of authorities one of which must have signed the client's certificate. */
  readonly authorities?: readonly string[]
}

/** An entry for TCP traffic: each of its ports is open. Key `tcp_edge:<id>`. */
export interface TcpEdgeUnit {
  readonly kind: 'tcp_edge'
  readonly id: string
  /** Empty where TLS listeners bring its connections, for the names of the edge of the same id (`EdgeUnit.passthrough`). */
  readonly ports: readonly HostPort[]
  readonly upstream?: string
  readonly modules: ModuleConfigs
}

/** A set of networks; its rules are units of their own. Key `ip_policy:<id>`. */
interface IpPolicyUnit {
  readonly kind: 'ip_policy'
  readonly id: string
}

/** One network of an IP policy. Key `ip_rule:<id>`. */
export interface IpRuleUnit {
  readonly kind: 'ip_rule'
  /** Id of the policy. */
  readonly policy: string
  readonly cidr: string
  readonly action: 'allow' | 'deny'
}

/** Restricts one class of traffic to what IP policies allow. Key `restriction:<id>`. */
export interface RestrictionUnit {
  readonly kind: 'restriction'
  readonly traffic: string
  /** false: what it would refuse is only logged and counted. */
  readonly enforced: boolean
  /** Ids of IP policies. */
  readonly policies: readonly string[]
}

/** A certificate with its key. Key `certificate:<id>`. */
export interface CertificateUnit {
  readonly kind: 'certificate'
  readonly id: string
  /** PEM, leaf first. */
  readonly chain: string
  /** PEM. */
  readonly privateKey: SecretReference | undefined
  /** DNS names of the leaf in lower case, and its IP addresses in canonical form; it is offered for these too. */
  readonly names: readonly string[]
  /** Its validity, RFC 3339. */
  readonly notBefore: string
  readonly notAfter: string
  /** rsa, ecdsa or ed25519. */
  readonly keyType: string
}

/** The certificate that a name presents. Key `domain:<id>`. */
interface DomainUnit {
  readonly kind: 'domain'
  readonly name: string
  /** Key of a unit; absent: none yet. */
  readonly certificate?: string
}

/** An authority that clients' certificates are checked against. Key `authority:<id>`. */
interface AuthorityUnit {
  readonly kind: 'authority'
  readonly pem: string
  /** Serial numbers of certificates that it has revoked: lower-case hexadecimal digits; absent: it has no list. */
  readonly revoked?: readonly string[]
}

/** Names a place for secrets. Key `vault:<id>`. */
interface VaultUnit {
  readonly kind: 'vault'
  readonly id: string
  readonly name: string
  /** Ids of the users and bots who may use its secrets beside administrators; `members`: all of them. Absent: administrators alone. */
  readonly usableBy?: readonly string[]
}

/** A value that policies may read. Key `secret:<id>`. */
interface SecretUnit {
  readonly kind: 'secret'
  /** Id of the vault. */
  readonly vault: string
  readonly name: string
  readonly value: SecretReference | undefined
}

/** Id of the unit of a policy, by the id of its route or edge. */
export const policyKey = (owner: string) => `policy:${owner}`
/** Id of the unit of a backend. */
export const upstreamKey = (backend: string) => `upstream:${backend}`

/** One keyed piece of the plan. */
export type Unit =
  | ListenerUnit
  | UpstreamUnit
  | PolicyUnit
  | RouteUnit
  | EdgeUnit
  | HttpsUnit
  | TcpEdgeUnit
  | IpPolicyUnit
  | IpRuleUnit
  | RestrictionUnit
  | CertificateUnit
  | DomainUnit
  | AuthorityUnit
  | VaultUnit
  | SecretUnit

/** Clear values by `SecretReference.secret`, beside a change and never inside it. */
export type SecretValues = ReadonlyMap<string, string>
