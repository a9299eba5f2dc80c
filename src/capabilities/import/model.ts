/**
 * The neutral model between readers of configuration files (nginx and others) and the writer of site files.
 *
 * A reader resolves what its language inherits or leaves implicit, so that each route is complete. The writer knows no
 * source language.
 */

/** Position of a statement in the source. Lines and columns begin at 1. */
export interface SourcePosition {
  readonly file: string
  readonly line: number
  readonly column: number
}

/** Returns a position as messages write it, such as `nginx.conf:3:5`. */
export const positionText = ({ file, line, column }: SourcePosition) => `${file}:${line}:${column}`

/** Result of the conversion of one statement. */
export type Verdict =
  | { readonly kind: 'exact' }
  /** `difference`: what differs, as a sentence without a full stop. */
  | { readonly kind: 'close'; readonly difference: string }
  /** `reason`: why it is not converted; `instead`: what to do about it. */
  | { readonly kind: 'not-here'; readonly reason: string; readonly instead: string }

/** Verdict for a statement that Sluice follows exactly. */
export const EXACT: Verdict = { kind: 'exact' }
/** Returns the verdict for a statement that Sluice follows with a difference. */
export const close = (difference: string): Verdict => ({ kind: 'close', difference })
/** Returns the verdict for a statement that is not converted: the reason, and the alternative. */
export const notHere = (reason: string, instead: string): Verdict => ({ kind: 'not-here', reason, instead })

/** A node of the model: where it comes from, and its verdict. */
interface SourceNode {
  readonly at: SourcePosition
  readonly verdict: Verdict
}

/** A statement of the source, for the report. A statement has a line of the report even if it leads to no node. */
export interface Statement extends SourceNode {
  /** Text of the statement on one line, without the block below it. */
  readonly text: string
  /** Positions of the blocks around the statement, the innermost first. Comments of the site file stand at the nodes of these positions. */
  readonly within: readonly SourcePosition[]
}

/** Configuration that a reader returns. */
export interface ImportedConfig {
  /** Name of the source language, as the command line has it. */
  readonly format: string
  readonly listeners: readonly ImportedListener[]
  /** In the order of the source. */
  readonly hosts: readonly ImportedHost[]
  readonly upstreams: readonly ImportedUpstream[]
  /** Connections that are forwarded without HTTP. */
  readonly tcp?: readonly ImportedTcpEdge[]
  /** In the order of the source. */
  readonly statements: readonly Statement[]
}

/** Address and port on which the source listens. */
export interface ImportedListener extends SourceNode {
  /** Address without brackets; `0.0.0.0` and `::` stand for every address. */
  readonly address: string
  readonly port: number
  readonly tls: boolean
  readonly proxyProtocol: boolean
}

/** A port whose connections go to an upstream. */
export interface ImportedTcpEdge extends SourceNode {
  readonly port: number
  /** Name of an `ImportedUpstream` with `tcp:` servers; not set: connections are refused. */
  readonly upstream?: string
}

/** A virtual host: names that share routes. */
export interface ImportedHost extends SourceNode {
  /** Names and wildcards in the form of site files. The first one names the site. `*`: every name that no other host has. */
  readonly names: readonly string[]
  readonly ports: readonly HostPort[]
  readonly certificate?: ImportedCertificate
  /** Authorities of client certificates. */
  readonly clientCertificates?: { readonly caFile: string; readonly required: boolean }
  readonly minTlsVersion?: string
  /** Response to clients without TLS if there are listeners with and without it. @default 'redirect' if all ports have TLS */
  readonly plainHttp?: 'redirect' | 'serve'
  /** Actions before a route is chosen. */
  readonly actions: readonly RouteAction[]
  /** The first route whose tests are all true serves a request. */
  readonly routes: readonly ImportedRoute[]
}

/** Port under which a host is served. */
export interface HostPort {
  readonly port: number
  readonly tls: boolean
}

interface ImportedCertificate extends SourceNode {
  readonly certificateFile: string
  readonly keyFile: string
}

/** Test of a request. Paths are compared in the decoded normal form. */
export type RouteTest =
  | { readonly kind: 'path-exact'; readonly path: string }
  /**
   * `border`: `text` takes every path that begins with `path`; `segment` takes `path` itself and what is below it, as
   * routes of site files do. For a path that ends with a slash `text` excludes the path without it.
   */
  | { readonly kind: 'path-prefix'; readonly path: string; readonly border: 'text' | 'segment' }
  /** RE2 syntax, searched in the path. */
  | { readonly kind: 'path-regex'; readonly pattern: string; readonly ignoreCase: boolean }
  | { readonly kind: 'method'; readonly methods: readonly string[] }
  /** A CEL expression on the request. */
  | { readonly kind: 'expression'; readonly cel: string }

/** Route of a host: tests of the request, actions and a target. */
export interface ImportedRoute extends SourceNode {
  /** Short text for people, such as `location ~ \.php$`. */
  readonly label: string
  readonly tests: readonly RouteTest[]
  /** None of these may be true. */
  readonly unless?: readonly RouteTest[]
  /** In the order in which they run. */
  readonly actions: readonly RouteAction[]
  /** Not set: `actions` end in an answer. */
  readonly target?: RouteTarget
  readonly timeouts?: ImportedTimeouts
  /** Largest request body in bytes. */
  readonly maxBodyBytes?: number
}

/** Time-outs in seconds. */
export interface ImportedTimeouts {
  readonly connect?: number
  readonly firstByte?: number
  readonly idle?: number
}

/** Target of a route: an upstream, files, or an answer. */
export type RouteTarget =
  /** `upstream`: the name of an `ImportedUpstream`. */
  { readonly kind: 'upstream'; readonly upstream: string } | { readonly kind: 'files'; readonly files: FileTarget }

/** Static files. */
export interface FileTarget {
  readonly folder: string
  readonly index?: readonly string[]
  /** Path of the file for requests that no file answers. */
  readonly fallback?: string
  readonly listing?: boolean
  /** Cache-Control by pattern of file names; the key `default` is for all others. */
  readonly cache?: Readonly<Record<string, string>>
}

/** Text with CEL in `${…}`; a `$` that begins no expression stands for itself. */
export type Template = string

/** An action of a route or host. `when`: CEL that must be true. */
export type RouteAction = { readonly when?: string; readonly at: SourcePosition } & (
  | { readonly kind: 'respond'; readonly status: number; readonly body?: Template; readonly contentType?: string }
  | { readonly kind: 'close' }
  /** `pattern` (RE2): only a URL whose path and query match it is redirected, and `$1` of `to` stands for a group of it. */
  | {
      readonly kind: 'redirect'
      readonly status: 301 | 302 | 303 | 307 | 308
      readonly to: Template
      readonly pattern?: string
    }
  /** Replaces the first match of `pattern` (RE2) in path and query by `to`, where `$1` stands for a group. */
  | { readonly kind: 'rewrite'; readonly pattern: string; readonly to: Template }
  /** Sets a field of the request to the upstream; an empty value removes it. */
  | { readonly kind: 'request-header'; readonly name: string; readonly value: Template }
  /** `statuses`: the answers that it is for; not set: all. */
  | {
      readonly kind: 'response-header'
      readonly name: string
      readonly value: Template
      readonly statuses?: readonly number[]
      /** `set` removes what the upstream sent first; an empty value of `set` only removes. */
      readonly mode: 'add' | 'set'
    }
  | {
      readonly kind: 'rate-limit'
      readonly name: string
      readonly capacity: number
      /** Seconds. */
      readonly window: number
      /** CEL. */
      readonly key: string
    }
  | {
      readonly kind: 'basic-auth'
      readonly realm: string
      readonly file?: string
      readonly credentials?: readonly { readonly username: string; readonly passwordHash: string }[]
    }
  /** Networks; a rule with no match allows. */
  | { readonly kind: 'addresses'; readonly allow: readonly string[]; readonly deny: readonly string[] }
  | { readonly kind: 'compress'; readonly algorithms: readonly string[] }
  /** An action in the terms of traffic policies. */
  | {
      readonly kind: 'native'
      readonly phase: 'request' | 'response'
      readonly type: string
      readonly config: Readonly<Record<string, unknown>>
    }
  /** Sets `vars.name` to the value of a CEL expression, first in each policy of the host that reads it. */
  | { readonly kind: 'variable'; readonly name: string; readonly cel: string }
)

/** Named group of servers. */
export interface ImportedUpstream extends SourceNode {
  readonly name: string
  readonly servers: readonly UpstreamServer[]
  readonly balance?: 'least_requests' | 'hash' | 'failover'
  /** CEL. */
  readonly hashKey?: string
  readonly stickyCookie?: string
  readonly healthPath?: string
  readonly tls?: { readonly caFile?: string; readonly serverName?: string; readonly insecure?: boolean }
}

/** One server of an upstream. */
export interface UpstreamServer {
  readonly url: string
  readonly weight?: number
  readonly backup?: boolean
}

/** Files and variables that a reader may read. */
export interface ImportSources {
  /** Rejects if there is no such file. */
  readFile(path: string): Promise<string>
  /** Names in a folder; rejects if there is no such folder. */
  listFolder(path: string): Promise<readonly string[]>
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** Reads the files of one configuration. Throws a `CodedError` of `importErrors` for a file that cannot be read. */
export type Reader = (files: readonly string[], sources: ImportSources) => Promise<ImportedConfig>
