import type { PathForm } from '../flow/target.js'
import type { ShardedMap } from '../lib/sharded-map.js'
import type { FileUpstream, ResponseUpstream } from './answering-upstreams.js'
import type { Pooled } from './pools.js'

/**
 * Running configuration as plain data: immutable units that refer to each other by key. The snapshot is derived from this alone. Units hold
 * references to secrets, never the values.
 */
export interface Plan {
  /** Number of changes in this process. Each change names the plan that it continues. */
  readonly number: number
  readonly units: ShardedMap<Unit>
}

/** Reference to a secret value. A new version may have a new value. */
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
  /** Terminates TLS. */
  readonly tls: boolean
  /** Port that clients use; only edges with this port are served. @default `port`, and hosts without a port are served as well */
  readonly publicPort?: number
  /** Trusted peers send a PROXY header. */
  readonly proxyProtocol: boolean
  /** Form of paths for edges without their own setting. @default strict */
  readonly pathForm?: PathForm
}

interface UpstreamBase {
  readonly kind: 'upstream'
  /** Name for people. @default its destination */
  readonly name?: string
}

/** Range of HTTP statuses, both ends included. */
export type StatusRange = readonly [from: number, to: number]

/** Active health check of a server. */
export interface HealthCheck {
  /** `tcp`: a connection, with TLS its handshake. `grpc`: the gRPC health protocol over HTTP/2. */
  readonly type: 'http' | 'tcp' | 'grpc'
  /** gRPC service to check; '' for the whole server. */
  readonly service: string
  /** Path and query; only for HTTP. */
  readonly path: string
  /** Value of Host. @default the address */
  readonly host?: string
  /** Interval between checks (ms). */
  readonly interval: number
  /** Timeout of one check (ms). */
  readonly timeout: number
  /** Statuses that count as healthy. */
  readonly statuses: readonly StatusRange[]
  /** Consecutive successes that mark a server up. */
  readonly rise: number
  /** Consecutive failures that mark a server down. */
  readonly fall: number
}

/** Health check by live traffic. */
interface PassiveHealth {
  /** Consecutive failures that mark a server down. */
  readonly failures: number
  /** Statuses that count as failures and are retried on another server where that is safe. */
  readonly statuses: readonly StatusRange[]
}

/** Conditions for a retry, besides statuses. */
export type RetryCondition = 'connect' | 'refused_stream' | 'closed' | 'timeout'

/** Rules for retrying failed requests. */
export interface Retries {
  /** Attempts of one request, the first included. */
  readonly attempts: number
  readonly on: readonly RetryCondition[]
  /** Statuses that are retried. */
  readonly statuses: readonly StatusRange[]
  /** Methods that are retried if the request may have been processed. */
  readonly methods: 'safe' | 'idempotent'
  /** Maximum number of retries per second. @default unlimited */
  readonly perSecond?: number
  /** Retries that each request adds to the budget, 0 to 1. @default unlimited */
  readonly share?: number
}

/** Pin of a certificate: SHA-256 of its DER form or of its public key (SubjectPublicKeyInfo). */
export interface CertificatePin {
  readonly of: 'certificate' | 'public-key'
  /** 64 lower-case hexadecimal digits. */
  readonly sha256: string
}

/** Server at an address. */
export interface AddressUpstream extends UpstreamBase {
  readonly form: 'address'
  readonly protocol: 'http' | 'https'
  /** Host; with `service` its domain. */
  readonly host: string
  /** Port; with `service` 0. */
  readonly port: number
  /** Its servers are the targets of the SRV records of this name (RFC 2782). */
  readonly service?: string | undefined
  /** Absolute path of a Unix domain socket; then `host` is `localhost` and `port` 0. */
  readonly socket?: string
  /** Path added before that of each request, without a trailing slash. @default none */
  readonly pathPrefix?: string
  /** Version of the PROXY protocol header sent on each connection. @default no header */
  readonly proxyProtocol?: 1 | 2
  /** PEM certificate authorities trusted instead of the system's; only for https. */
  readonly certificateAuthorities?: string
  /** Uses HTTP/2: by ALPN with https, by prior knowledge with http. @default HTTP/1.1 */
  readonly http2?: boolean
  /** Accepts responses that break the HTTP/1 grammar, unless they are ambiguous. @default strict */
  readonly lenient?: true
  /** Upgrade protocols besides WebSocket, lower-case (RFC 9110 7.8). @default none */
  readonly upgrades?: readonly string[]
  /** Maximum concurrent exchanges and connections of one server; queue length and its timeout (ms). @default unlimited */
  readonly maxConnections?: number
  readonly queue?: { readonly length: number; readonly timeout: number }
  /** Server name for SNI and the certificate check. Only for https. @default the host */
  readonly servername?: string
  /** Only for https. @default TLS 1.2 */
  readonly minVersion?: 'TLSv1.2' | 'TLSv1.3'
  /** Accepted certificates; without `certificateAuthorities` they replace the authorities. Only for https. */
  readonly pins?: readonly CertificatePin[]
  /** False accepts any certificate. Only for https. @default certificates are verified */
  readonly verify?: false
  /** Key of the client certificate. Only for https. */
  readonly clientCertificate?: string
  readonly health?: HealthCheck
  readonly passiveHealth?: PassiveHealth
  /** @default as in `proxy/retries` */
  readonly retries?: Retries
  /** Timeouts (ms). @default those of the options */
  readonly timeouts?: { readonly connect?: number; readonly response?: number; readonly idle?: number }
}

/** Cookie that keeps a client on its server. */
export interface Sticky {
  readonly cookie: string
  /** Milliseconds. @default browser session */
  readonly ttl?: number
  readonly path: string
  readonly sameSite: 'Lax' | 'Strict' | 'None'
}

/** Load balancing between several servers. */
export interface Balance {
  /** `least_requests`: fewest active requests in proportion to the weight. `hash`: by `hashKey`. @default round robin */
  readonly balance?: 'least_requests' | 'hash'
  /** Source of an expression for `compileHashKey`. */
  readonly hashKey?: string
  readonly sticky?: Sticky
}

/** Shares traffic between upstreams by weight; keys of units with weights. */
export interface WeightedUpstream extends UpstreamBase, Balance {
  readonly form: 'weighted'
  readonly members: readonly { readonly upstream: string; readonly weight: number }[]
  /** If less than this share of the members (0 to 1) is up, all are used. */
  readonly panicThreshold?: number
  /** Time in which a recovered member returns to its full weight (ms). */
  readonly slowStart?: number
}

/** Uses the first upstream that is up; keys of units. */
interface FailoverUpstream extends UpstreamBase {
  readonly form: 'failover'
  readonly members: readonly string[]
}

/** Tunnels that have all of these labels. */
export interface TunnelUpstream extends UpstreamBase, Balance {
  readonly form: 'tunnels'
  /** Id of the backend. */
  readonly id: string
  readonly labels: Readonly<Record<string, string>>
}

/** Destination of a route. Key `upstream:<name>`. */
export type UpstreamUnit =
  | AddressUpstream
  | ResponseUpstream
  | FileUpstream
  | WeightedUpstream
  | FailoverUpstream
  | TunnelUpstream

/** Traffic policy document. Key `policy:<owner>`. */
export interface PolicyUnit {
  readonly kind: 'policy'
  /** Part of the key of its actions' counters. */
  readonly owner: string
  readonly text: string
  /** Origin of the text for messages: a file name or a URI. */
  readonly source: string
  /** Set for a policy of a TCP edge, where the old phase names have another meaning. */
  readonly carrier?: 'tcp'
  /** Sent by an agent: has only that agent's rights. */
  readonly author?: 'agent'
}

/** Modules of a route or TCP edge by name: one configuration, or a list of them in order of execution; of the traffic policy the key of its unit. */
export type ModuleConfigs = Readonly<Record<string, unknown>>

/** Handling of the requests of an edge whose path matches. Key `route:<id>`. */
export interface RouteUnit {
  readonly kind: 'route'
  readonly id: string
  /** Id of its edge; without the edge the route serves no request. */
  readonly edge: string
  readonly match: 'exact' | 'prefix'
  readonly path: string
  /** Key of a unit. @default no upstream */
  readonly upstream?: string
  readonly modules: ModuleConfigs
  readonly name?: string
}

/** Host with its public port; `*.example.com` for every name below. */
export interface HostPort {
  readonly host: string
  readonly port: number
}

/** Edge for HTTP traffic. Key `edge:<id>`. */
export interface EdgeUnit extends Pooled {
  readonly kind: 'edge'
  readonly id: string
  /** Lower-case names; `every`: catch-all for hosts and ports without another edge. */
  readonly hosts: readonly HostPort[] | 'every'
  /** Protocol of its clients. @default https */
  readonly protocol?: 'http'
  /** Key of the policy whose `on_tcp_connect` runs for connections; only on the catch-all edge. */
  readonly connectPolicy?: string
  /** TLS rules for clients. @default the rules of the listener */
  readonly tls?: EdgeTls
  /** Serves only requests that no other edge matches by name or wildcard; opened by an agent. */
  readonly yields?: true
  /** TLS is passed through to the TCP edge of the same id. The edge has no routes. */
  readonly passthrough?: true
  /** Form of paths. @default that of the listener */
  readonly pathForm?: PathForm
  /** Action for clients without TLS. @default that of the unit `https:default` */
  readonly onHttp?: OnHttp
  /** @default that of the unit `https:default` */
  readonly hsts?: Hsts
  readonly name?: string
}

/** Action of an HTTPS edge for clients without TLS. */
export type OnHttp = 'serve' | 'redirect' | 'refuse'

/** Strict-Transport-Security policy (RFC 6797 6.1). */
export interface Hsts {
  /** Seconds; 0 removes the host from the browser's list. */
  readonly maxAge: number
  readonly includeSubdomains: boolean
  readonly preload: boolean
}

/** Defaults of HTTPS edges. Key `https:default`. */
export interface HttpsUnit {
  readonly kind: 'https'
  readonly onHttp: OnHttp
  readonly hsts?: Hsts
}

/** TLS rules for the clients of one edge. */
export interface EdgeTls {
  readonly minVersion?: '1.0' | '1.1' | '1.2' | '1.3'
  /** Keys of the authorities that may sign client certificates. */
  readonly authorities?: readonly string[]
}

/** Edge for TCP traffic; each of its ports is open. Key `tcp_edge:<id>`. */
export interface TcpEdgeUnit extends Pooled {
  readonly kind: 'tcp_edge'
  readonly id: string
  /** Empty if TLS listeners hand over its connections by name (`EdgeUnit.passthrough`). */
  readonly ports: readonly HostPort[]
  readonly upstream?: string
  readonly modules: ModuleConfigs
  readonly name?: string
}

/** Set of networks; its rules are separate units. Key `ip_policy:<id>`. */
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

/** Restricts one class of traffic to the addresses that IP policies allow. Key `restriction:<id>`. */
export interface RestrictionUnit {
  readonly kind: 'restriction'
  readonly traffic: string
  /** False: refusals are only logged and counted. */
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
  /** DNS names (lower-case) and IP addresses (canonical form) of the leaf. */
  readonly names: readonly string[]
  /** Validity, RFC 3339. */
  readonly notBefore: string
  readonly notAfter: string
  /** rsa, ecdsa or ed25519. */
  readonly keyType: string
}

/** Certificate for a name. Key `domain:<id>`. */
interface DomainUnit {
  readonly kind: 'domain'
  readonly name: string
  /** Key of a unit. @default no certificate yet */
  readonly certificate?: string
}

/** Authority for checking client certificates. Key `authority:<id>`. */
interface AuthorityUnit {
  readonly kind: 'authority'
  readonly pem: string
  /** Serial numbers of revoked certificates, lower-case hexadecimal. @default no revocation list */
  readonly revoked?: readonly string[]
}

/** Namespace of secrets. Key `vault:<id>`. */
interface VaultUnit {
  readonly kind: 'vault'
  readonly id: string
  readonly name: string
  /** Ids of users and bots who may use its secrets besides administrators; `members`: all members. @default administrators only */
  readonly usableBy?: readonly string[]
}

/** Value that policies may read. Key `secret:<id>`. */
interface SecretUnit {
  readonly kind: 'secret'
  /** Id of the vault. */
  readonly vault: string
  readonly name: string
  readonly value: SecretReference | undefined
}

/** Returns the key of a policy unit from the id of its route or edge. */
export const policyKey = (owner: string) => `policy:${owner}`
/** Returns the key of a backend's unit. */
export const upstreamKey = (backend: string) => `upstream:${backend}`
/** Key in place of an upstream of what only a policy answers; there is no such unit. */
export const POLICY_ALONE = 'upstream:none'

/** One keyed part of the plan. */
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

/** Plain values by `SecretReference.secret`; kept beside a change, never inside it. */
export type SecretValues = ReadonlyMap<string, string>
